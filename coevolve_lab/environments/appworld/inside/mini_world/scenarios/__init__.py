"""The scenarios, one a module; every module of this package is found and loaded by ``generate.py``."""
