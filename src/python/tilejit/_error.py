"""What can go wrong, as one exception: tj::Error in Python."""
from __future__ import annotations


class Error(Exception):
    """A call that failed. Nothing was launched then.

    stage: "argument", "target", "graph", "schedule", "codegen", "compile", "cache", "load", "launch" or "model".
    code: "invalid_argument", "unsupported", "not_found", "out_of_memory", "compile_failed", "driver_error", "deadlock",
    "cold_in_capture", "io", "model_fault", "internal" or "not_in_cache".
    message: cause and next step, one line. log: a compiler's log or the model's report. source_path: where the generated source was
    written. The last two may be empty.

    >>> import tilejit
    >>> try:
    ...     tilejit.Runtime(target="sm_1")
    ... except tilejit.Error as error:
    ...     print(error.stage, error.code)
    target invalid_argument
    """

    def __init__(self, message: str, stage: str = "argument", code: str = "invalid_argument", log: str = "", source_path: str = ""):
        super().__init__(message, stage, code, log, source_path)
        self.message, self.stage, self.code, self.log, self.source_path = message, stage, code, log, source_path

    def __str__(self) -> str:
        text = f"{self.stage}: {self.message}" if self.stage else self.message
        return f"{text}\n{self.log}" if self.log else text
