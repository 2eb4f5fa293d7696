"""A run's tasks and trajectories as data that is trained on elsewhere, and tasks from elsewhere as drafts of a run.

``export_tasks`` and ``export_trajectories`` write OpenAI-style messages with provenance columns as JSONL, Parquet or a
Hugging Face ``datasets`` folder; ``import_tasks`` reads any of the three. Nothing imported is trusted: it becomes
drafts of origin "import", which enter D_t through validation, guard and review like any other.
"""

from coevolve_lab.exchange.export import export_tasks, export_trajectories
from coevolve_lab.exchange.importing import Imported, import_tasks
from coevolve_lab.exchange.writing import FORMATS, Exported

__all__ = ["FORMATS", "Exported", "Imported", "export_tasks", "export_trajectories", "import_tasks"]
