"""Errors by boundary. Every message says what was wrong and what to do about it."""


class CoEvolveError(Exception):
    """Base of all errors that this library raises on purpose."""


class ConfigError(CoEvolveError):
    """A config file or value cannot be used."""


class EnvironmentFailure(CoEvolveError):
    """An environment cannot be made, or broke while it was used (never: the agent made a mistake)."""


class PrerequisiteError(EnvironmentFailure):
    """Something that has to be installed is missing; the message holds the exact command."""


class PolicyError(CoEvolveError):
    """A model, tokenizer or engine cannot be used."""


class ExplorerError(CoEvolveError):
    """An explorer failed."""


class ReviewPendingError(CoEvolveError):
    """Drafts wait for a person's decision before the next round may begin; nothing is lost meanwhile."""


class StoreError(CoEvolveError):
    """A run folder cannot be opened, read or written."""


class RunLockedError(StoreError):
    """Another process writes to this run."""


class BackgroundError(CoEvolveError):
    """A background kernel or server cannot be started, reached or ended."""
