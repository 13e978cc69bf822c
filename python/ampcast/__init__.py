"""Automatic mixed precision for PyTorch: ``torch.autocast`` and ``torch.amp.GradScaler``, and what they lack.

Importing the package registers ampcast's kernels with torch's dispatcher, once. Programs that enter only
``torch.autocast`` afterwards get the same bits as without ampcast.
"""

from ampcast import _load

if not _load.is_command_line():
    _load.load()

    from ampcast import _C, ops
    from ampcast._config import show_config
    from ampcast.autocast import autocast, cast_list, disabled, get_dtype, get_policy, is_enabled
    from ampcast.grad_scaler import GradScaler

    _C.install()

    __all__ = [
        "GradScaler",
        "autocast",
        "cast_list",
        "disabled",
        "get_dtype",
        "get_policy",
        "is_enabled",
        "ops",
        "show_config",
    ]
