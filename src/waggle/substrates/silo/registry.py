"""The thirty Silo-Bench tasks by id, in the order in which the upstream generator draws them."""

from waggle.core.errors import ConfigError
from waggle.substrates.silo.level_i import LEVEL_I
from waggle.substrates.silo.level_ii import LEVEL_II
from waggle.substrates.silo.level_iii import LEVEL_III
from waggle.substrates.silo.task import Task

TASKS: dict[str, Task] = {task.id: task for task in (*LEVEL_I, *LEVEL_II, *LEVEL_III)}


def find_task(task_id: str) -> Task:
    """The task of that id, or an error that lists what there is."""
    task = TASKS.get(task_id)
    if task is None:
        raise ConfigError(
            f"Silo task {task_id!r} not found; use I-01 to I-10, II-11 to II-20 or III-21 to III-30"
        )
    return task
