"""What Inductor compiles with, and where it keeps what it compiled."""

from __future__ import annotations

import os
from pathlib import Path

from graphbench.errors import SetupError, first_line

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def cpp_compiler() -> str:
    """The C++ compiler that Inductor would call.

    Raises:
        SetupError: it finds none that works.

    Source: `torch._inductor.cpp_builder.get_cpp_compiler`, which raises `InvalidCxxCompiler` (a `RuntimeError`), torch
        2.11, 2.13 and 2.14.
    """
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        return str(get_cpp_compiler())
    except (RuntimeError, OSError) as error:
        raise SetupError(
            first_line(error),
            hint="install g++ (Debian, Ubuntu: apt install g++), or name another compiler: CXX=clang++",
            subject="C++ compiler",
        ) from error


def cache_folder() -> Path:
    """Where Inductor keeps compiled kernels. It need not exist yet.

    Source: `torch._inductor.runtime.cache_dir_utils.default_cache_dir`, torch 2.11, 2.13 and 2.14.
    """
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return Path(os.environ.get(CACHE_VARIABLE) or default_cache_dir()).absolute()
