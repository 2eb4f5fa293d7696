"""The mini world: a few people, their apps and the tasks that they give, in the layout of the benchmark.

Everything here runs with the Python of the installed package and is never imported by the library. Records are made
with the package's own models, so they obey its rules; names, contents and tasks are our own.
"""
