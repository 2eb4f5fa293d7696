"""Scripts that run with the Python of AppWorld's own environment. Of them, the library imports ``frames`` alone."""
