"""An LLM explores (sections 3.2, 3.3): one file a stage, its prompts as files, and everything that a model wrote read
with suspicion."""
