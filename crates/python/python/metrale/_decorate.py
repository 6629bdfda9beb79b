# SPDX-License-Identifier: MIT OR Apache-2.0
"""Context managers as decorators."""

import functools
import inspect
from collections.abc import Callable
from typing import Any


def decorate(span: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with a fresh copy of `span` around each call."""
    waits = inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction
    if any(kind(function) for kind in waits):
        # The call only makes the object: its work would run outside the span.
        raise TypeError(f"{function!r} does not run when it is called: use a with statement inside")

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        with span._again():
            return function(*args, **kwargs)

    return timed
