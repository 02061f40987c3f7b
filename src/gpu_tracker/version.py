"""The version of the package."""

__version__ = '6.0.0'
