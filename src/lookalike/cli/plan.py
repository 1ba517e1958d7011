"""`lookalike plan`: choose an index for a number of pictures and a memory size; `lookalike recipes`: list recipes."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Where, opened
from lookalike.cli.output import complete_commands, print_json, print_line, print_note, print_table
from lookalike.errors import InputError, MissingError, NoCollectionError
from lookalike.recipes import ABOUT, DEFAULT, RECIPES
from lookalike.system import installed_bytes
from lookalike.text import human_bytes, human_seconds, many, parse_bytes, parse_count, parse_seconds

if TYPE_CHECKING:
    from lookalike.collection import planning
else:
    planning = Lazy("lookalike.collection.planning")

RECIPE = "deep"
"""Default recipe of a plan."""


def plan(
    where: Where,
    ram: Annotated[
        str | None,
        typer.Option("--ram", metavar="BYTES", help="Available memory, such as 2GB. Default: that of this machine."),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option("--items", metavar="N", help="Number of pictures, such as 10M. Default: that of the collection."),
    ] = None,
    dim: Annotated[
        int | None, typer.Option("--dim", metavar="N", help="Dimensions per vector, for raw vectors without a recipe.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option("--recipe", metavar="NAME", help="Recipe, or NAME = SPEC | SPEC.")
    ] = None,
    space: Annotated[
        str | None, typer.Option("--space", metavar="NAME", help="Space of the collection to plan for.")
    ] = None,
    latency: Annotated[
        str | None, typer.Option("--latency", metavar="TIME", help="Maximum time per search, such as 50ms.")
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Measure this machine first (a second or two). Default: assume a typical machine."
        ),
    ] = False,
    machines: Annotated[
        int | None,
        typer.Option("--machines", metavar="N", help="Model a cluster of this many machines; --ram is that of each."),
    ] = None,
    cores_per_machine: Annotated[
        int | None,
        typer.Option("--cores-per-machine", metavar="N", help="Cores per machine, one worker each. Default: 8."),
    ] = None,
    json: Json = False,
) -> int:
    """Choose an index that fits in memory, and predict its cost.

    The exit code is 1 if nothing fits. With --machines, all figures are modelled.

    \b
    Examples:
      lookalike plan --ram 2GB --items 10M
      lookalike plan --ram 8GB --items 1M --recipe color --latency 50ms --measure
      lookalike -c work.lookalike plan --ram 4GB
      lookalike plan --items 100M --machines 10 --cores-per-machine 16
    """
    for option, number in (("--machines", machines), ("--cores-per-machine", cores_per_machine)):
        if number is not None and number < 1:
            raise InputError(f"{option} must be at least 1. Got {number}.")
    if cores_per_machine is not None and machines is None:
        raise InputError("--cores-per-machine describes a cluster. Give its number of machines, such as --machines 10.")
    memory = installed_bytes() if ram is None else parse_bytes("--ram", ram)
    limit = None if latency is None else parse_seconds("--latency", latency)
    count = None if items is None else parse_count("--items", items)
    if dim is not None and recipe is not None:
        raise InputError("--dim and --recipe both set the vector dimension. Give one of them.")
    if dim is not None and dim < 1:
        raise InputError(f"--dim must be at least 1. Got {dim}.")
    one_core = machines is not None
    speeds = planning.measure(one_core=one_core) if measure else planning.REFERENCE_MACHINE
    workload = _workload(where, count, dim, recipe, space)
    workload = planning.with_speed(workload, speeds, _rate(workload, one_core) if measure else None)
    made: planning.Plan
    if machines is None:
        made = planning.plan(workload, memory, limit, speeds)
    else:
        each = float("inf") if ram is None else memory
        cores = cores_per_machine or planning.WORKER_CORES
        made = planning.plan_cluster(workload, machines, cores, each, limit, speeds)
    if json:
        print_json(asdict(made) | {"machine": asdict(speeds) | {"measured": measure}})
    else:
        _print_plan(made, where, speeds, measure)
    return 0 if made.chosen else 1


def recipes(json: Json = False) -> int:
    """List the recipes and their speed on this machine.

    A recipe is a named pipeline that turns a picture into a vector. The speed is measured on a few generated pictures,
    which takes up to a second per recipe.

    \b
    Examples:
      lookalike recipes
      lookalike add ~/Pictures --recipe 'mine = efficientnet() | pca(dim=128)'
    """
    rows = []
    if not json:
        print_line("recipe         dim  pictures/s  finds")
    for name, chain in RECIPES.items():
        found: planning.RecipeSpeed | None = None
        try:
            found = planning.measure_recipe(chain)
        except MissingError as error:
            print_note(f"{name}: {error}")
        dim, rate = (found.dim, round(found.pictures_per_s, 1)) if found else (None, None)
        row = {"name": name, "chain": chain, "about": ABOUT[name], "default": name in DEFAULT}
        rows.append(row | {"dim": dim, "pictures_per_s": rate})
        if not json:
            star = "*" if name in DEFAULT else " "
            print_line(f"{name:10}{star}{_number(dim):>7}  {_number(rate):>10}  {ABOUT[name]}")
            print_line(f"{'':32}{' | '.join(chain)}")
    if json:
        print_json(rows)
    else:
        print_line("* default for new collections")
    return 0


def _workload(
    where: str, count: int | None, dim: int | None, recipe: str | None, space: str | None
) -> "planning.Workload":
    """Return the workload of the plan: a number of vectors, pictures of a recipe, or a space of the collection."""
    given = dim is not None or recipe is not None
    if given and space is not None:
        raise InputError(
            "--space plans for existing vectors, --dim and --recipe for new ones. Give only one of the three."
        )
    stats = None if given and count is not None else _stats(where)
    number = count or (stats["items"] if stats else None)
    if number is None:
        raise InputError(
            "Give the number of pictures, such as --items 1M. It can only be left out for a collection with pictures,"
            f" but {where} is missing or empty."
        )
    if dim is not None:
        return planning.Workload(number, dim, dim)
    if stats is not None and not given:
        return replace(planning.collection_workload(stats, space), items=number)
    if space is not None:
        raise InputError(
            f"--space needs a collection with pictures, but {where} is missing or empty. Leave out --space, or give"
            " another collection: lookalike -c DIR plan --space NAME"
        )
    return planning.recipe_workload(number, recipe or RECIPE)


def _stats(where: str) -> dict[str, Any] | None:
    """Return the statistics of the collection; None if it does not exist or is empty."""
    try:
        with opened(where, local=True) as collection:
            stats = collection.stats()
    except NoCollectionError:
        return None
    return stats if stats["items"] and stats["spaces"] else None


def _rate(workload: "planning.Workload", one_core: bool) -> float | None:
    """Return the measured speed of the feature in pictures per second; None if it cannot be measured."""
    try:
        return planning.measure_recipe(workload.chain, one_core=one_core).pictures_per_s if workload.chain else None
    except MissingError as error:
        print_note(str(error))
        return None


def _print_plan(made: "planning.Plan", where: str, speeds: "planning.Machine", measured: bool) -> None:
    workload = made.workload
    what = (
        f"space {workload.name} of {where}"
        if workload.exists
        else f"recipe {workload.name}"
        if workload.chain
        else "vectors"
    )
    limit = "" if made.latency_s is None else f", at most {human_seconds(made.latency_s)} per search"
    cluster = made if isinstance(made, planning.ClusterPlan) else None
    place = f"in {human_bytes(made.ram)} of memory"
    if cluster:
        each = "" if made.ram == float("inf") else f" and {human_bytes(made.ram)} of memory"
        place = f"on {many(cluster.machines, 'machine')} with {many(cluster.cores_per_machine, 'core')}{each} each"
    print_line(f"{many(workload.items, 'picture')} × {workload.dim} dimensions ({what}) {place}{limit}")
    origin = "measured now" if measured else "typical machine; use --measure to test yours"
    print_line(
        f"{'core' if cluster else 'machine'}: reads {speeds.memory / 1e9:.1f} GB/s,"
        f" {speeds.product / 1e9:.0f} billion operations/s ({origin})"
    )
    print_line()
    if cluster:
        _print_cluster(cluster)
    else:
        _print_ways(made)
    for note in made.notes:
        print_line()
        print_line(note)
    for way in made.ways:
        if way.name == made.chosen:
            print_line()
            for command in way.commands:
                print_line(complete_commands(command))


def _print_ways(made: "planning.Plan") -> None:
    rows = [
        [
            f"{'*' if way.name == made.chosen else ' '} {way.name}",
            human_bytes(way.memory),
            human_bytes(way.disk),
            "?" if way.add_s is None else human_seconds(way.add_s),
            human_seconds(way.search_s),
            human_seconds(way.round_s),
            f"{way.recall:.2f}",
            way.why,
        ]
        for way in made.ways
    ]
    print_table(["  method", "memory", "disk", "add", "search", "round", "recall", "reason"], rows)


def _print_cluster(made: "planning.ClusterPlan") -> None:
    workers = made.machines * made.cores_per_machine
    print_line(f"modelled: {many(workers, 'worker')} with {made.rows_per_worker:,} vectors each")
    print_line()
    rows = [
        [
            f"{'*' if way.name == made.chosen else ' '} {way.name}",
            human_bytes(way.memory),
            human_bytes(way.feedback),
            human_bytes(way.head),
            human_bytes(way.disk),
            "?" if way.add_s is None else human_seconds(way.add_s),
            "?" if way.core_hours is None else f"{way.core_hours:,.0f}",
            human_seconds(way.search_s),
            human_seconds(way.round_s),
            f"{way.recall:.2f}",
            way.why,
        ]
        for way in made.ways
        if isinstance(way, planning.ClusterWay)
    ]
    columns = ["memory", "feedback", "head", "disk", "add", "core-hours", "search", "round", "recall", "reason"]
    print_table(["  method", *columns], rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
