"""The LP and MPS formats, read and written."""
