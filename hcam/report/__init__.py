"""Run folders as tables, pictures and pages; everything is read from the folders alone."""

from hcam.report.curves import curve
from hcam.report.runs import Run, read
from hcam.report.tables import compare_tables, final_table

__all__ = ["Run", "compare_tables", "curve", "final_table", "read"]
