"""One typed tree describes one run, loaded from ``configs/*.yaml``.

Unknown keys are errors that name the nearest valid key. A run stores the tree it was started with, and its fingerprint
is checked when the run is opened again (design rule 7).
"""

from coevolve_lab.config.loading import load_config, read_yaml
from coevolve_lab.config.tree import (
    Config,
    EndpointConfig,
    EngineConfig,
    EvolutionConfig,
    ExplorerConfig,
    LoraConfig,
    PolicyConfig,
    RareConfig,
    RolloutConfig,
    Section,
    SignalsConfig,
    TinyModelConfig,
    TrainingConfig,
    WarmStartConfig,
    fingerprint,
)

__all__ = [
    "Config",
    "EndpointConfig",
    "EngineConfig",
    "EvolutionConfig",
    "ExplorerConfig",
    "LoraConfig",
    "PolicyConfig",
    "RareConfig",
    "RolloutConfig",
    "Section",
    "SignalsConfig",
    "TinyModelConfig",
    "TrainingConfig",
    "WarmStartConfig",
    "fingerprint",
    "load_config",
    "read_yaml",
]
