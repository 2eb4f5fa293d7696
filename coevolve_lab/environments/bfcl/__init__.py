"""BFCL-V3 Multi-Turn Base: the official cases and judge, and a world to explore over the same eight API classes."""
