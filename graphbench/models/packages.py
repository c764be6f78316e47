"""Imports of optional packages, with the line that installs what is missing."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from graphbench.errors import SetupError, first_line


def import_optional(name: str) -> Any:
    """Import a package of the extra `models`.

    Args:
        name: dotted module name.

    Returns:
        The module, as `Any`: none of these packages is installed where graphbench is type-checked.

    Raises:
        SetupError: it is not installed, or it cannot be imported here. torchvision built for another torch raises
            `RuntimeError` (an operator that does not exist), a missing library `OSError`.
    """
    package = name.partition(".")[0]
    try:
        module: ModuleType = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == package:
            raise SetupError(f"{package} is not installed", hint=_install(package), subject=package) from error
        raise SetupError(f"{package} cannot be imported: {error}", hint=_install(package), subject=package) from error
    except (ImportError, RuntimeError, OSError) as error:
        raise SetupError(
            f"{package} is installed but cannot be imported: {first_line(error)}",
            hint=f"it must be built for the torch in use; {_install(package)}",
            subject=package,
        ) from error
    return module


def _install(package: str) -> str:
    return f"pip install {package}, or all of graphbench's extra `models` from its checkout: pip install '.[models]'"
