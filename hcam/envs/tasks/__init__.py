"""One module or folder per task, called as the task is: it defines `TASK`, the environment's class."""
