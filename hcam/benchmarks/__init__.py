"""What `hcam bench` measures. Inside the package, so that an installed hcam can measure the machine it is on."""
