"""AppWorld: agents write Python against the APIs of nine apps; the package lives in an environment of its own."""
