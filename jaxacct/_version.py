"""The version of the code that runs, which the metadata of an editable installation may lag behind."""

__version__ = "0.3.0"
