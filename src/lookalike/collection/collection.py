"""`Collection`: the whole application in one class, which joins algorithms and storage.

The command line and the service use this class and nothing below it.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TextIO

from lookalike.classes import Prediction
from lookalike.collection import calibration, clip, export, tables
from lookalike.collection.adding import Adding, Report
from lookalike.collection.browsing import Browsing, Folder
from lookalike.collection.calibration import CalibrationReport
from lookalike.collection.classes import Classes, LabelReport, import_labels, read_labels
from lookalike.collection.clip import Clip, ClipReport
from lookalike.collection.copies import Marked, mark_copies
from lookalike.collection.duplicates import Group, Groups, Tier, count_groups, find_groups, known_groups, with_items
from lookalike.collection.evaluation import StepQuality, score_steps
from lookalike.collection.executor import Executor
from lookalike.collection.fitting import (
    Fitted,
    create_for_fit,
    extend_pool,
    fit_space,
    fit_spaces,
    read_negatives,
    undo_new_spaces,
    update_spaces,
)
from lookalike.collection.label_formats import DATASETS
from lookalike.collection.likelihood import Search, add_likelihood, check_cutoff
from lookalike.collection.locating import locate_matches
from lookalike.collection.maintenance import compact, repair, verify, verify_pictures
from lookalike.collection.neighbours import update_smoothed
from lookalike.collection.other_files import forget_other_files, stored_totals
from lookalike.collection.overview import Page, Pages, glance, speeds, stats
from lookalike.collection.picture_map import POINTS, Map, PointClasses, known_map, make_map, point_classes
from lookalike.collection.removals import record_removal, removed_paths, restore_pictures
from lookalike.collection.resolve import (
    Example,
    as_list,
    as_texts,
    find_item,
    find_items,
    items_of,
    read_item,
    select,
    vectors,
)
from lookalike.collection.saved_searches import SavedSearches
from lookalike.collection.searching import Push, Result, Results, cut_off, explain, find_pooled, make_query, search
from lookalike.collection.sessions import Session, SimulatedRound, login, simulate, start_session, warm_up
from lookalike.collection.space import Space, Spaces
from lookalike.collection.split import SHARES, Split, Together, split_pictures, write_split
from lookalike.collection.vector_files import VectorReport, import_vectors
from lookalike.collection.watching import find_files, find_folders, watch_folders
from lookalike.collection.words import Meaning, complete, kinds_of, search_words, understand
from lookalike.devices import describe_on, find_gpu
from lookalike.errors import InputError, StoreError, UnknownNameError
from lookalike.images.decoding import read as read_picture
from lookalike.images.files import LIMITS, Limits
from lookalike.images.preview import encode_preview
from lookalike.images.sources import absolute, ignore, is_url, relative_to, root_of, walk
from lookalike.images.text_reader import TextReader
from lookalike.limits import check_count
from lookalike.store.actions import Action, Changed
from lookalike.store.backup import BackupReport
from lookalike.store.backup import make_backup as backup
from lookalike.store.backup import restore_backup as restore
from lookalike.store.classes import StoredPrediction
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item, Order
from lookalike.store.sessions import Summary
from lookalike.store.sharing import ShareReport, share, unshare
from lookalike.text import many
from lookalike.types import Box, Ids, Progress, Query, Vectors, format_id, silent


class Collection:
    """Pictures, their vectors and their labels, in one directory.

    Opening a collection does not write. A method that writes holds the writer lock while it runs. `classes`,
    `saved_searches` and `spaces` have their own methods.

    Parameters
    ----------
    path : the collection's directory.
    create : create it if it does not exist.
    wait_s : seconds to wait for another writer to finish.
    within : folders that links inside a source may point into, in addition to the sources; None: anywhere. For
        programs that add on behalf of others.
    cluster : a `lookalike.cluster.Cluster` that extracts features and answers searches; by default this machine.
    device : "cuda" searches, fits and extracts features on a GPU, "cpu" without one. "auto" searches and extracts
        features on a GPU if a usable one is available, and fits without one.

    Examples
    --------
    >>> collection = Collection("photos.lookalike", create=True)  # doctest: +SKIP
    >>> collection.add("~/Pictures")  # doctest: +SKIP
    >>> collection.search("beach.jpg", k=5)  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = False,
        wait_s: float = 0.0,
        within: Sequence[str | Path] | None = None,
        cluster: Executor | None = None,
        device: str = "auto",
    ):
        self.path = Path(absolute(path))
        self.wait_s = wait_s
        self._store = Store(self.path, create=create)
        gpu = find_gpu(device)
        self._spaces = Spaces(self._store, cluster, gpu, gpu if device == "cuda" else None)
        describe_on(device)
        self._pages = Pages(self._store)
        self._browsing = Browsing(self._store)
        self.classes = Classes(self._spaces)
        self.saved_searches = SavedSearches(self._spaces, self.search)
        folders = None if within is None else [str(folder) for folder in within]
        self._adding = Adding(self._spaces, self.classes, folders)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            spaces = ", ".join(self._spaces.names()) or "none"
            classes = many(len(self._store.judgements.classes.counts()), "class", "classes")
            return f"<Collection {self.path}: {many(len(self), 'picture')}, {classes}; spaces: {spaces}>"
        except (StoreError, sqlite3.Error):  # closed or damaged
            return f"<Collection {self.path}>"

    def __len__(self) -> int:
        return len(self._store.items)

    def close(self) -> None:
        """Close all files."""
        self._store.close()

    def add(
        self,
        *sources: str | Path,
        recipes: str | Sequence[str] | None = None,
        progress: Progress | None = None,
        workers: int | None = None,
        ocr: bool = False,
    ) -> Report:
        """Add folders, archives, lists, single files or URLs. Known files that have not changed cost one `stat` call.

        `recipes` are names (see `lookalike.recipes`) or new pipelines, `"name = spec | spec"`; by default the existing
        spaces. `ocr` also reads the text in these pictures, for searches by words; this takes about a second per
        picture. After a crash, the same call resumes where it stopped.
        """
        if not sources:
            raise InputError("Nothing to add. Give at least one folder, archive or picture.")
        started = time.monotonic()
        paths = [absolute(source) for source in sources]
        if progress is not None and any(map(is_url, paths)):
            progress("connecting", 0, None)
        walk(paths, on_skip=ignore)  # raises an error for a missing source before anything is stored
        reader = TextReader() if ocr else None
        with self._store.writer(self.wait_s):
            report = self._adding.add(paths, recipes, progress or silent, workers)
            if reader is not None:
                report.notes += self._adding.read_texts(reader, paths, progress or silent, workers)
        report.seconds = time.monotonic() - started
        return report

    def refresh(
        self,
        *roots: str | Path,
        progress: Progress | None = None,
        workers: int | None = None,
        ocr: bool = False,
    ) -> Report:
        """Check these sources, by default all, for new, changed, moved and missing files.

        If a source is missing or empty, its pictures are kept, with a note: its disk may not be mounted. `ocr` also
        reads the text in pictures in which it was not read before (see `add`).
        """
        started = time.monotonic()
        paths = [absolute(root) for root in roots]
        self._adding.check_added(paths)
        reader = TextReader() if ocr else None
        with self._store.writer(self.wait_s):
            report = self._adding.refresh(paths, progress or silent, workers)
            if reader is not None:
                report.notes += self._adding.read_texts(reader, paths, progress or silent, workers)
        report.seconds = time.monotonic() - started
        return report

    def watch(
        self,
        *roots: str | Path,
        progress: Progress | None = None,
        workers: int | None = None,
        ocr: bool = False,
    ) -> Iterator[Report]:
        """Refresh these sources, by default all, then wait for changes in those that are folders; yield each report.

        Only the files that have changed are checked. A group of changes without effect on the collection yields no
        report. The iteration does not end by itself; leave the loop to stop it. Needs the extra `watch`.
        """
        paths = [absolute(root) for root in roots]
        self._adding.check_added(paths)
        groups = watch_folders(find_folders(paths or self.sources()), self.path)
        next(groups)
        yield self.refresh(*paths, progress=progress, workers=workers, ocr=ocr)
        reader = TextReader() if ocr else None
        for changed in groups:
            started = time.monotonic()
            with self._store.writer(self.wait_s):
                report = self._adding.refresh_files(changed, progress or silent, workers)
                if reader is not None:
                    report.notes += self._adding.read_texts(reader, find_files(changed), progress or silent, workers)
            report.seconds = time.monotonic() - started
            if report.has_changes:
                yield report

    def add_clip(
        self,
        image: str | Path,
        text: str | Path,
        tokenizer: str | Path,
        *,
        name: str = "clip",
        size: int = 224,
        mean: float | Sequence[float] = clip.MEAN,
        scale: float | Sequence[float] = clip.SCALE,
        template: str | Sequence[str] | None = None,
        length: int | None = None,
        pad: int | None = None,
        image_output: str | None = None,
        text_output: str | None = None,
        picture: Example | None = None,
        words: str | None = None,
    ) -> ClipReport:
        """Create a space for a network with a part for pictures and a part for texts, such as CLIP or SigLIP.

        Both parts are ONNX files; `tokenizer` is the network's `tokenizer.json`. The other parameters are those of the
        components `onnx` and `text`, with the same defaults, but `mean` and `scale` are by default those of CLIP.

        Both files are loaded, and the dimensions of their vectors compared. With a `picture` and its `words`, the words
        must fit the picture better than some others. If a check fails, InputError is raised and no space is created.
        The vectors of the pictures are computed by the next `add` or `refresh`.
        """
        network = clip.load_clip(
            image,
            text,
            tokenizer,
            name=name,
            size=size,
            mean=mean,
            scale=scale,
            template=template,
            length=length,
            pad=pad,
            image_output=image_output,
            text_output=text_output,
            picture=picture,
            words=words,
            store=self._store,
        )
        return self.add_loaded_clip(network)

    def add_loaded_clip(self, network: Clip) -> ClipReport:
        """Create the space of a network that `lookalike.collection.load_clip` has loaded and checked."""
        with self._store.writer(self.wait_s):
            self._spaces.create([network.recipe], checked=True)
        return network.report

    def import_vectors(
        self,
        source: str | Path,
        space: str,
        *,
        ids: str | Path | None = None,
        column: str | None = None,
        progress: Progress | None = None,
    ) -> VectorReport:
        """Import vectors that were computed elsewhere, for pictures in the collection, as a space.

        `source` is a .parquet file with a column `id`, `path`, `file_name` or `filepath` and a `column` of lists of
        numbers, an .npz file as written by `export`, or an .npy, .fvecs, .ivecs or .bvecs file; these need `ids`, a
        file with one id or path per vector. Relative paths start at the folder of `source`. If the space exists, the
        vectors are added to it and replace those of the same pictures. If the file has an error, nothing is imported.

        New pictures and their parts have no vectors in such a space: search with pictures that have one, or with a
        vector.
        """
        path, names = Path(absolute(source)), None if ids is None else Path(absolute(ids))
        with self._store.writer(self.wait_s):
            return import_vectors(self._spaces, path, space, names, column, progress or silent)

    def remove_space(self, name: str) -> None:
        """Remove a space with its vectors and its model, and the vectors of its feature if no other space uses them.

        Pictures and labels stay.
        """
        with self._store.writer(self.wait_s):
            self._store.free_space(partial(self._spaces.remove, name))

    def remove(self, *which: int | str | Path, filter: Filter | None = None, author: str | None = None) -> Changed:
        """Remove items by id or path (a folder: all items below it), or by filter; return the number removed.

        The files stay, and `undo` brings the pictures back. Labels and marks stay too, and apply again if the same
        picture is added again.
        """
        if bool(which) == (filter is not None):
            raise InputError("To remove pictures, give either ids and paths or a filter.")
        with self._store.writer(self.wait_s):
            ids, paths = find_items(self._store.items, which)
            if filter is not None:
                ids.update(select(self._store, filter).tolist())

            sources = sorted({absolute(str(name)) for name in which} & set(self._store.items.sources()))
            affected = ids | set(self._store.items.only_at(paths))
            action = record_removal(self._store, affected, sources, author or login()) if affected else None

            def drop() -> int:
                with self._store.transaction():
                    for source in sources:
                        self._store.items.remove_source(source)
                    roots = [absolute(str(name)) for name in which if not isinstance(name, int)]
                    forget_other_files(self._store, roots)
                    return self._store.remove(ids | set(self._store.items.unlink(paths)))

            try:
                removed = self._store.free_space(drop)
            except BaseException:
                if action is not None:
                    with suppress(StoreError):
                        self._store.judgements.actions.forget(action)
                raise
            with suppress(StoreError):  # a full disk, for instance; the next add updates the neighbours
                update_smoothed(self._spaces, silent)
            return Changed(removed, action)

    def actions(self, offset: int = 0, limit: int = -1) -> list[Action]:
        """The history: changes of users to labels, classes, duplicates and pictures, newest first."""
        return self._store.judgements.actions.all(offset, limit)

    def action(self, id: int) -> Action:
        """One action of the history; raises NoItemError if it does not exist."""
        return self._store.judgements.actions.get(id)

    def action_items(self, action: int, k: int) -> list[int]:
        """At most `k` of the pictures whose labels, rejections or duplicates an action changed, as examples of it."""
        return self._store.judgements.actions.items(action, k)

    def n_actions(self) -> int:
        """The number of actions in the history."""
        return len(self._store.judgements.actions)

    def undo(
        self,
        action: int | None = None,
        *,
        author: str | None = None,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> Changed:
        """Undo an action, by default the last one that is not undone; return its number of changes.

        The attribute `action` of the result is the new action, which can be undone, too. Raises ConflictError, and
        changes nothing, if a later action changed the same data: undo that one first.

        Removed pictures come back with their vectors or, if these were dropped to free disk space, by reading their
        files again. Pictures with neither are left out, so the result can be lower than the number of removed pictures.
        """
        actions, author = self._store.judgements.actions, author or login()
        if action is None:
            last = actions.last()
            if last is None:
                raise InputError("There is nothing to undo.")
            action = last.id
        if actions.get(action).kind != "remove":
            return actions.undo(action, author=author)
        with self._store.writer(self.wait_s):
            return restore_pictures(self._spaces, self._adding, action, author, progress or silent, workers)

    def removed_paths(self, action: int) -> list[str]:
        """The paths of the pictures that an action removed."""
        return removed_paths(self._store, action)

    def fit(
        self,
        *spaces: str,
        features: bool = False,
        negatives: str | Path | None = None,
        labels: bool | str | Path = False,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> Fitted:
        """Fit spaces on the pictures in the collection; return the number of pictures that each was fitted on.

        A space can be new: a pipeline, `"name = spec | spec"`, or a single step, `"slem(lam=0.001)"`, `"itq(bits=64)"`,
        which creates a space of that name on the first space's feature. `"codes(bits=64)"` stands for the best of
        `pq`, `itq`, `tsvm` and `sdh` on held-out pictures if at least two labels have 10 pictures each (with `labels`,
        one that learns from labels), and for `pq` otherwise. The attribute `notes` of the result describes the choice.

        `negatives` is another collection or pictures, for transforms that need a pool; by default the pool is the
        collection itself. Steps that learn from labels are fitted on the pictures with exactly one label (`dfk` on all
        pictures with labels). `labels` is a source as for `import_labels`, which is imported first, or True.

        `features` refits the vocabularies of features first. A feature that learns from labels is fitted if `labels` or
        `features` are given, or if it was never fitted. In both cases, the features of every picture are extracted
        again; if that is interrupted, `refresh` resumes it.
        """
        if not isinstance(labels, bool):
            self.import_labels(labels, progress=progress)
        with self._store.writer(self.wait_s), undo_new_spaces(self._spaces):
            return fit_spaces(
                self._spaces,
                spaces,
                partial(self._adding.refit_features, progress or silent, workers),
                features=features,
                labels=bool(labels),
                negatives=negatives,
                progress=progress or silent,
                workers=workers,
            )

    def score_steps(self, space: str) -> list[StepQuality]:
        """Use labels to measure retrieval after each step of a space's chain, such as PCA or codes after `dfk`.

        The chain is fitted without 30 % of the labelled pictures (at most 1,000), which are then searched among each
        other. Nothing is stored.
        """
        return self._store.read_consistently(lambda: score_steps(self._spaces.find(space)))

    def add_negatives(
        self,
        space: str,
        source: str | Path,
        *,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> int:
        """Add another collection, or pictures, to the negative pool of a fitted `slem`; return the size of the pool.

        The result is the same as that of a fit on both pools, but the earlier negatives are not read again. All
        pictures are encoded again.
        """
        with self._store.writer(self.wait_s):
            chosen_space = self._spaces.find(space)
            pool = read_negatives(chosen_space, source, progress or silent, workers)
            n = extend_pool(chosen_space, pool, progress or silent)
            update_spaces([chosen_space], progress or silent)
        return n

    def calibrate(
        self,
        space: str,
        *,
        labels: bool | str | Path = False,
        negatives: str | Path | None = None,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> CalibrationReport:
        """Choose λ (and γ) of a space's last transform on the collection itself, store them, and fit the space.

        `space`, `labels` and `negatives` are as for `fit`. About 200 pictures are altered (cropped, flipped, made
        brighter or darker, recompressed), and the parameters are chosen that best find the originals of altered
        pictures. With `labels`, the parameters are chosen that best find pictures with the same label.
        """
        progress = progress or silent
        if not isinstance(labels, bool):
            self.import_labels(labels, progress=progress)
        with self._store.writer(self.wait_s):
            with undo_new_spaces(self._spaces):
                chosen_space = create_for_fit(self._spaces, space, calibration.GRID)
                pool = None if negatives is None else read_negatives(chosen_space, negatives, progress, workers)
                calibrated = calibration.choose_options(chosen_space, pool, bool(labels), progress, workers)
                rows = fit_space(chosen_space, progress, pool, calibrated.chain)
            update_spaces([chosen_space], progress)
        return replace(calibrated, fitted_on=rows)

    def search(
        self,
        examples: Example | Sequence[Example] = (),
        *,
        words: str | Sequence[str] = (),
        without: Example | Sequence[Example] = (),
        without_words: str | Sequence[str] = (),
        k: int = 20,
        space: str | None = None,
        filter: Filter | None = None,
        effort: float | str | None = None,
        within: float | None = None,
        likely: float | None = None,
        rerank: bool = False,
        where: bool = False,
        progress: Progress | None = None,
    ) -> Results:
        """The k pictures most similar to the examples and least similar to `without`, best first.

        An example is a path, a file's bytes, an id, pixels, a `Crop` of one of these, or a vector. A picture of the
        collection finds itself. With `rerank`, the first 200 results are re-ranked by the neighbours that they share
        with the query (k-reciprocal re-ranking); their scores are then between 0 and 1. With `where`, each result
        also has the box of the part that matches; for that, the pictures are read and their features extracted again.

        `words`, such as "dog on grass", search by what pictures show and by labels, folders and file names; see
        `understand`. Examples can be added to words. Scores are then between 0 and about 1.5.

        With `within` and `likely`, results are left out whose score is higher than `within`, or whose probability of
        being right is lower than `likely`. The probability is estimated from labels and marks if there are enough,
        otherwise from distances or the network's probabilities; `Results.estimated_from` names the source.
        """
        check_cutoff(within, likely)
        positive, negative = as_list(examples), as_list(without)
        texts, negative_texts = as_texts(words), as_texts(without_words)
        if texts or negative_texts:
            if rerank or where:
                raise InputError("A search by words cannot be re-ranked, and its results have no matching part.")
            found = self._store.read_consistently(
                lambda: search_words(
                    self._spaces,
                    None if space is None else self._spaces.find(space),
                    texts,
                    negative_texts,
                    positive,
                    negative,
                    k=k,
                    filter=filter,
                    effort=effort,
                    likely=likely is not None,
                )
            )
            return cut_off(found, within, likely)
        if rerank and likely is not None:
            raise InputError("The likelihood of re-ranked results is unknown. Leave out re-ranking or the likelihood.")

        def read() -> tuple[Results, Query]:
            chosen = self._spaces.find(space)
            found, query = search(chosen, positive, negative, k=k, filter=filter, effort=effort, rerank=rerank)
            if rerank:
                return Results(found), query
            kind = Search(len(positive), len(negative), k)
            rated = add_likelihood(chosen, found, query, kind, filter=filter, effort=effort, only_cached=likely is None)
            return rated, query

        results, query = self._store.read_consistently(read)
        results = cut_off(results, within, likely)
        if where:
            ids = [result.id for result in results]
            boxes = locate_matches(self._spaces.find(space), ids, query, progress or silent)
            results[:] = [replace(result, box=boxes[result.id]) for result in results]
        return results

    def locate(
        self,
        items: Sequence[int],
        examples: Example | Sequence[Example],
        *,
        without: Example | Sequence[Example] = (),
        space: str | None = None,
        progress: Progress | None = None,
    ) -> dict[int, Box | None]:
        """The part of each of these items that matches the examples, as `search` with `where` returns it.

        The pictures are read and their features extracted again. The box is None if a picture cannot be read.
        """
        chosen = self._spaces.find(space)
        query = self._store.read_consistently(lambda: make_query(chosen, as_list(examples), as_list(without)))
        return locate_matches(chosen, items, query, progress or silent)

    def understand(self, words: str) -> list[Meaning]:
        """What a search by words understands by each word: kinds of pictures, labels, names of folders and files."""
        return self._store.read_consistently(lambda: understand(self._spaces, words))

    def complete(self, text: str, k: int = 8) -> list[str]:
        """At most k suggestions for the last words of a text: labels, folders and kinds of pictures."""
        return complete(self._spaces, text, k)

    def kinds(self, ids: Sequence[int]) -> dict[int, list[tuple[str, float]]]:
        """The kinds that the network recognizes in these items, with their probabilities, likeliest first."""
        return self._store.read_consistently(lambda: kinds_of(self._spaces, ids))

    def explain(self, example: Example, *, space: str | None = None, k: int = 5) -> list[Push]:
        """The k negatives with the most influence on a picture's classifier, strongest first.

        The space must be fitted with a pool of negatives, such as slem; by default the first such space. The
        picture itself, and pictures with the same vector, are not listed.
        """

        def read() -> list[Push]:
            found = find_pooled(self._spaces) if space is None else self._spaces.find(space)
            return explain(found, example, k)

        return self._store.read_consistently(read)

    def session(
        self,
        examples: Example | Sequence[Example] = (),
        *,
        words: str | Sequence[str] = (),
        without: Example | Sequence[Example] = (),
        without_words: str | Sequence[str] = (),
        label: str | None = None,
        space: str | None = None,
        name: str | None = None,
        author: str | None = None,
        id: str | None = None,
    ) -> Session:
        """Start a feedback session from examples or words, as for `search`, or from a label; or open one by its `id`.

        Every mark is stored immediately, so a session can be opened again after a crash. `author` is the author of the
        marks, by default the user who is logged in.
        """
        positive, negative = as_list(examples), as_list(without)
        texts, negative_texts = as_texts(words), as_texts(without_words)
        if id is None:
            return start_session(
                self._spaces,
                positive,
                negative,
                words=texts,
                without_words=negative_texts,
                label=label,
                space=space,
                author=author,
                name=name,
            )
        if positive or texts or negative or negative_texts or label or space or name:
            raise InputError("An existing session already has examples, a space and a name. Give only its id.")
        return Session(self._spaces, id, author)

    def warm_up(self, space: str | None = None) -> None:
        """Load and compile everything for the first search and the first feedback round; used by the service."""
        self._store.read_consistently(lambda: warm_up(self._spaces.find(space)))

    def classify(
        self,
        pictures: Example | Sequence[Example],
        *,
        on_skip: Callable[[str, str], None] | None = None,
        progress: Progress | None = None,
    ) -> list[Prediction]:
        """Predict the class of pictures, in the collection or not, with its probability and the runner-up.

        A folder stands for all pictures in it. Nothing is stored. `classes` has the methods to create classes. If a
        picture cannot be read, `on_skip` is called with its name and the reason; without `on_skip`, that is an error.
        """
        return self.classes.classify(pictures, on_skip=on_skip, progress=progress)

    def sessions(self) -> list[Summary]:
        """Every feedback session, most recently used first."""
        return self._store.judgements.sessions.all()

    def remove_session(self, id: str) -> None:
        """Remove an unfinished session and its marks. A finished one cannot be removed: its class needs it."""
        self._store.judgements.sessions.remove(id)

    def simulate(
        self,
        examples: Example | Sequence[Example] = (),
        *,
        words: str | Sequence[str] = (),
        without: Example | Sequence[Example] = (),
        without_words: str | Sequence[str] = (),
        label: str | None = None,
        labels_from: str | Path | None = None,
        space: str | None = None,
        rounds: int = 10,
        window: int = 9,
        filter: Filter | None = None,
    ) -> list[SimulatedRound]:
        """Run a session with an emulated user who searches for the pictures of one label; nothing is stored.

        The default label is that of the first example. Without examples, the label's first picture is the example. The
        labels are the collection's, or those of a CSV file or folder, as for `import_labels`. Pictures without a label
        count as negative. The simulation ends after `rounds` rounds, or earlier if no questions are left.
        """
        positive, negative = as_list(examples), as_list(without)
        texts, negative_texts = as_texts(words), as_texts(without_words)

        def read() -> list[SimulatedRound]:
            labels = None if labels_from is None else read_labels(self._store.items, Path(absolute(labels_from)))[0]
            return simulate(
                self._spaces,
                self._spaces.find(space),
                positive,
                negative,
                words=texts,
                without_words=negative_texts,
                label=label,
                labels=labels,
                rounds=rounds,
                window=window,
                filter=filter,
            )

        return self._store.read_consistently(read)

    def duplicates(
        self,
        tier: Tier = "same",
        *,
        space: str | None = None,
        filter: Filter | None = None,
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> Groups:
        """Groups of duplicates, largest first; nothing is deleted.

        "identical": the same bytes at several paths. "same": the same photo re-encoded, resized or slightly cropped.
        "edited": a mirrored, slightly rotated or overlaid copy. "alike": pictures much closer than the typical distance
        in a space, by default `thing`. Pairs given to `not_duplicates` are left out. Without a filter, the groups are
        cached until pictures are added or removed.
        """
        groups = find_groups(
            self._spaces,
            tier,
            space=space,
            filter=filter,
            progress=progress or silent,
            workers=workers,
        )
        groups.store = self._store
        return groups

    def known_duplicates(self, tier: Tier = "same", *, space: str | None = None) -> tuple[Groups, bool] | None:
        """The cached groups of `duplicates`, and whether they are up to date; None if there are none."""
        return known_groups(self._spaces, tier, space)

    def count_duplicates(self, *, space: str | None = None) -> dict[Tier, int | None]:
        """The number of cached groups of each tier; None for a tier that was never computed."""
        return count_groups(self._spaces, space)

    def mark_duplicates(
        self,
        groups: Sequence[Group],
        keep: str | Path = "largest",
        references: Iterable[str | Path] = (),
        *,
        crops: bool = False,
    ) -> list[Marked]:
        """For each of these groups, the copies to remove by a rule, as ids and paths; nothing is removed.

        `keep` is "largest", "oldest" (by the time the pictures were taken or, if unknown, modified) or a folder: all
        pictures below it are kept, and groups without any are left alone. Pictures below a folder of `references` are
        never marked. A copy is marked only if a picture with an existing file is kept that shows the same. A crop is
        marked only with `crops`, if a kept picture shows all of it.
        """
        return mark_copies(self._store, groups, keep, references, crops=crops)

    def group_lines(
        self,
        tier: Tier = "same",
        format: Literal["json", "csv"] = "json",
        *,
        space: str | None = None,
        relative: bool = False,
    ) -> Iterator[str]:
        """The cached groups (see `known_duplicates`) with their items as text, piece by piece; see also `lines`."""
        if format not in ("json", "csv"):
            raise UnknownNameError("format", format, ["json", "csv"])
        groups, _ = self.known_duplicates(tier, space=space) or ([], False)
        groups_with_items: Iterator[tuple[Group, Sequence[export.Row]]] = with_items(self._store, groups)
        if relative:
            to_relative = partial(export.relative_row, self.relative_paths())
            groups_with_items = ((group, list(map(to_relative, rows))) for group, rows in groups_with_items)
        return export.group_lines(groups_with_items, format)

    def not_duplicates(self, items: Sequence[int], *, author: str | None = None) -> Changed:
        """Record that these items are not duplicates of each other; return the number of new pairs.

        For a single item: its several paths are intended; raises InputError if it has only one. The record stays if the
        pictures are removed.
        """
        known = self._store.items.get(items)
        if unknown := [format_id(int(item)) for item in items if int(item) not in known]:
            raise InputError(f"No item with the id {unknown[0]} in the collection.")
        if sum(len(item.paths) for item in known.values()) == 1:
            raise InputError(
                "Give two or more pictures that are not duplicates of each other: lookalike duplicates dismiss IMAGE"
                " IMAGE. Got one picture with one path."
            )
        return self._store.judgements.not_duplicates.add(items, author=author or login())

    def map(self, space: str | None = None, *, points: int = POINTS, progress: Progress | None = None) -> Map:
        """Positions in a square for at most `points` pictures, with similar ones close together.

        The map is cached until the space changes. New pictures are placed next to their neighbours.
        """
        return make_map(self._spaces.find(space), points, progress or silent)

    def known_map(self, space: str | None = None, *, points: int = POINTS) -> tuple[Map, bool] | None:
        """The cached map, and whether it is up to date; None if there is none."""
        return known_map(self._spaces.find(space), points)

    def point_classes(self, drawn: Map) -> PointClasses:
        """The class of each picture on a map: its first label, otherwise its prediction."""
        return point_classes(self._store, drawn.ids)

    def items(self, filter: Filter | None = None) -> Iterator[Item]:
        """All items, or those that pass the filter, in the order of their ids."""
        return items_of(self._store, filter)

    def get(self, ids: Sequence[int]) -> dict[int, Item]:
        """The items with these ids, in this order; unknown ids are left out."""
        return self._store.items.get(ids)

    def has(self, ids: Sequence[int]) -> bool:
        """Whether all of these ids belong to items."""
        return self._store.items.has(ids)

    def find(self, name: str) -> int | None:
        """The item with this id or known path; None if there is none."""
        return find_item(self._store.items, name)

    def page(self, filter: Filter | None = None, *, order: Order = "path", offset: int = 0, limit: int = 200) -> Page:
        """A page of the items that pass the filter, and the number of items that pass."""
        return self._pages.page(filter, order, offset, limit)

    def page_ids(self, filter: Filter | None = None, *, order: Order = "path") -> Ids:
        """The ids of all items that pass the filter, in the order of `page`."""
        return self._pages.ids(filter, order)

    def facets(self, filter: Filter | None = None) -> dict[str, dict[Any, int]]:
        """The number of items for each value of each facet, by the name of the condition in `Filter`.

        The facets are year, camera, lens, place, orientation, file_format, label, labelled and suggested. The counts of
        a facet ignore the filter's own condition on it, so that they show what other values would give.
        """
        return self._browsing.facets(filter or Filter())

    def timeline(self, filter: Filter | None = None) -> dict[str | None, int]:
        """The number of items of each month, such as "2024-05", in UTC; newest first, in the order "taken" of `page`.

        The key of items with an unknown time is None.
        """
        return self._browsing.timeline(filter or Filter())

    def folders(self, parent: str | None = None, filter: Filter | None = None, *, nested: bool = False) -> list[Folder]:
        """The folders in a folder, by default the sources, that contain items which pass the filter.

        Archives are folders. The condition `folder` of the filter is ignored. With `nested`, the list includes the
        folders inside these folders, at any depth.
        """
        return self._browsing.folders(parent, filter or Filter(), nested=nested)

    def read(self, item: int | Item, limits: Limits = LIMITS) -> bytes:
        """The bytes of an item's file; raises ImageError if it is missing or has changed since it was added."""
        return read_item(self._store, item, limits)

    def preview(self, item: int | Item, side: int = 256) -> bytes:
        """A small copy of an item as JPEG, with a longer side of at most `side` pixels; raises errors like `read`."""
        check_count("side", side)
        return encode_preview(read_picture(self.read(item), side=side).pixels, side)

    @property
    def spaces(self) -> list[Space]:
        """The spaces of the collection; the first is the default of all methods."""
        return list(self._spaces)

    def space(self, name: str | None = None) -> Space:
        """The space of this name, by default the first; raises InputError if it does not exist."""
        return self._spaces.find(name)

    def sources(self) -> list[str]:
        """The sources, in the order in which they were added; `refresh` checks them."""
        return self._store.items.sources()

    def relative_paths(self) -> Callable[[str], str]:
        """Return a function that makes a path relative to its source: /home/me/Pictures/a.jpg becomes Pictures/a.jpg.

        For a path outside all sources, such as one from a list of files, the function returns the file name.
        """
        return relative_to(self.sources())

    def real_sources(self) -> list[str]:
        """The real paths of the sources, with links resolved, and URLs; for the parameter `within`."""
        return [source if is_url(source) else os.path.realpath(root_of(source)) for source in self.sources()]

    def predictions(self, ids: Sequence[int]) -> dict[int, StoredPrediction]:
        """The stored predictions of these items; items with a label have none."""
        return self._store.judgements.predictions.get(ids)

    def vectors(self, space: str | None = None) -> tuple[Ids, Vectors]:
        """Ids (n,) and vectors (n, d) of a space, or codes (n, bits / 8), in memory, ordered by id."""
        return self._store.read_consistently(lambda: self._spaces.find(space).searched_rows())

    def describe(self, pictures: Example | Sequence[Example], *, space: str | None = None) -> Vectors:
        """The vectors (n, d) of pictures, in the collection or not, in a space; nothing is stored."""
        return self._store.read_consistently(lambda: vectors(self._spaces.find(space), as_list(pictures)))

    def labels(self, ids: Sequence[int]) -> dict[int, list[str]]:
        """The sorted labels of each of these items."""
        return self._store.judgements.labels(ids)

    def label_counts(self) -> dict[str, int]:
        """The number of items with each label."""
        return self._store.judgements.label_counts()

    def import_labels(
        self,
        source: str | Path,
        *,
        author: str = "import",
        format: str | None = None,
        field: str | None = None,
        pictures: str | Path | None = None,
        progress: Progress | None = None,
    ) -> LabelReport:
        """Import labels from a file or a folder; labels of pictures that are not in the collection are reported.

        `format` is csv (`path,label` or `id,label`), coco, fiftyone, huggingface, imagefolder (one subfolder per
        class), labelstudio, parquet or webdataset, by default found by the name or the content. `field` is the column,
        key or field with the labels. Relative paths start at the folder `pictures`, by default that of the file; the
        other formats than csv then also match a picture whose path ends with the name, if it is the only one. If the
        file has an error, no label is imported.
        """
        folder = None if pictures is None else Path(absolute(pictures))
        path = Path(absolute(source))
        return import_labels(self._store, path, author, format, field, folder, progress or silent)

    def skipped(self) -> dict[str, str]:
        """The files that could not be read, with reasons."""
        return self._store.items.skipped()

    def other_types(self) -> dict[str, int]:
        """The number of files in the sources of types that are not read, by extension, the largest first."""
        return stored_totals(self._store)

    def glance(self) -> dict[str, Any]:
        """Counts of items, labels and classes, and the spaces; fast at any size."""
        return self._store.read_consistently(lambda: glance(self._spaces))

    def stats(self) -> dict[str, Any]:
        """Counts, sizes, fits and indexes of the collection; `glance` is faster."""
        return self._store.read_consistently(lambda: stats(self._spaces, self.classes.all()))

    def speeds(self) -> list[dict[str, Any]]:
        """The time of a search in each space, as measured now and as predicted by `lookalike plan` for this machine."""
        return self._store.read_consistently(lambda: speeds(self._spaces))

    def verify(self, progress: Progress | None = None, *, pictures: bool = False) -> list[str]:
        """Compare every file of the collection with its digest; return a sentence for each fault.

        With `pictures`, the original pictures are read too, and missing or changed ones are reported.
        """
        faults = verify(self._spaces, progress or silent)
        return [*faults, *verify_pictures(self._store, progress or silent)] if pictures else faults

    repair = staticmethod(repair)

    def check_open_files(self) -> list[str]:
        """Quarantine segments whose files were changed or truncated after this process opened them; return the files.

        Reading a truncated file crashes the process. Long-running processes should call this method often; it is cheap.
        """
        if not self._store.vectors.find_changed():
            return []
        with self._store.writer():
            return self._store.vectors.quarantine_changed()

    def compact(self, progress: Progress | None = None) -> dict[str, int]:
        """Drop removed rows, merge small files, and free disk space."""
        with self._store.writer(self.wait_s):
            return self._store.free_space(partial(compact, self._spaces, progress or silent))

    def backup(self, target: str | Path, progress: Progress | None = None) -> BackupReport:
        """Create or update a backup of the collection in the directory `target`; other processes can write meanwhile.

        Files that the backup already has are not copied again. Every file is read back and compared with its digest.
        """
        return backup(self.path, Path(absolute(target)), progress or silent)

    @staticmethod
    def restore(backup: str | Path, target: str | Path, progress: Progress | None = None) -> BackupReport:
        """Create a new collection at `target` from a backup; every file is compared with its digest."""
        return restore(Path(absolute(backup)), Path(absolute(target)), progress or silent)

    def share(self, folder: str | Path, progress: Progress | None = None) -> ShareReport:
        """Move vectors, models and indexes to a directory on a shared file system, where other machines can read them.

        Every copy is read back before the original is removed. After an interruption, the same call resumes.
        """
        with self._store.writer(self.wait_s):
            return share(self._store, Path(absolute(folder)), progress or silent)

    def unshare(self, progress: Progress | None = None) -> ShareReport:
        """Move vectors, models and indexes back from the shared file system. Every copy is read back."""
        with self._store.writer(self.wait_s):
            return unshare(self._store, progress or silent)

    def to_arrow(
        self,
        *,
        filter: Filter | None = None,
        ids: Sequence[int] | None = None,
        vectors: str | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Return a `pyarrow.Table` with one row per item; `export` writes the same to a Parquet file of any size.

        The columns are id, path, paths, width, height, format, bytes, taken_at, added_at, labels, predicted,
        probability, camera, lens, exposure_s, aperture, iso, focal_length_mm, latitude and longitude. With `vectors`,
        the name of a space, the column `vector` has the vectors or codes as lists of fixed size. Needs the extra
        `tables`.
        """
        space = None if vectors is None else self._spaces.find(vectors)
        return tables.to_arrow(self._store, filter, ids, space, progress or silent)

    def to_pandas(
        self,
        *,
        filter: Filter | None = None,
        ids: Sequence[int] | None = None,
        vectors: str | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Return the table of `to_arrow` as a `pandas.DataFrame` with the id as index."""
        tables.need("pandas")
        table = self.to_arrow(filter=filter, ids=ids, vectors=vectors, progress=progress)
        return table.to_pandas().set_index("id")

    def export(
        self,
        target: str | Path | TextIO,
        *,
        format: str = "json",
        filter: Filter | None = None,
        space: str | None = None,
        copy: bool = False,
        on_skip: Callable[[str, str], None] | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Write the items, their labels or the vectors of a space to a file or folder; return the number of items.

        `format` is json, csv, paths or parquet for the catalogue; coco or labelstudio for labels; fiftyone,
        huggingface, imagefolder or webdataset for labels with the pictures; npz for vectors. A Parquet file contains
        vectors if `space` is given. webdataset is a tar, the other formats with pictures are a folder, which must be
        new or empty, with symbolic links to the pictures or, with `copy`, copies. If a picture cannot be read,
        `on_skip` is called with its path and the reason; without `on_skip`, that is an error.
        """
        if format in DATASETS:
            return export.write_dataset(
                self._store, target, format, filter, copy=copy, on_skip=on_skip, progress=progress or silent
            )
        if format == "npz":
            return export.write_vectors(self._store, target, partial(self.vectors, space), filter)
        if format == "parquet":
            if not isinstance(target, str | Path):
                raise InputError("Parquet can only be written to a file. Give a path that ends in .parquet.")
            chosen = None if space is None else self._spaces.find(space)
            return tables.write_parquet(self._store, Path(absolute(target)), filter, None, chosen, progress or silent)
        export.check_format(format)
        report = progress or silent
        return export.write_items(self._store, target, format, filter, report)  # type: ignore[arg-type]  # checked above

    def export_results(
        self, results: Sequence[Result], target: str | Path, *, progress: Progress | None = None
    ) -> dict[str, str]:
        """Write the results of a search, with ranks and scores, to a .json, .csv or .txt file.

        A .zip file contains the pictures. Any other target is a folder, which must be new or empty: the pictures are
        copied to it. Their names start with the rank. Returns the reason for each picture that could not be copied.
        """
        return export.write_results(self._store, results, target, progress or silent)

    def split(
        self,
        shares: Sequence[float] = SHARES,
        *,
        classes: Sequence[str] = (),
        filter: Filter | None = None,
        seed: int = 0,
        together: Together = "edited",
        progress: Progress | None = None,
        workers: int | None = None,
    ) -> Split:
        """Split the labelled pictures into training, validation and test pictures; nothing is stored.

        The part of a picture follows from a hash of its id and the seed, so it stays the same when other pictures are
        added. Duplicates are in one part: with "same", re-encoded and resized copies; with "edited", also mirrored and
        overlaid ones; with "alike", also similar pictures; "none" keeps nothing together. The sizes of the parts are
        therefore only approximately the `shares`, also in each class.
        """
        return split_pictures(
            self._spaces,
            shares,
            classes=classes,
            filter=filter,
            seed=seed,
            together=together,
            progress=progress or silent,
            workers=workers,
        )

    def export_split(
        self,
        split: Split,
        folder: str | Path,
        *,
        layouts: Sequence[str] = ("folders",),
        copy: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, str]:
        """Write a split to a folder, which must be new or empty; return the reason for each missing picture.

        "folders": PART/CLASS/ID.jpg, the layout of torchvision's ImageFolder, as symbolic links to the pictures, or as
        copies. A picture with several labels is in several folders. "coco": PART.json. "csv": split.csv.
        """
        return write_split(self._store, split, folder, layouts, copy=copy, progress=progress or silent)

    def lines(
        self,
        format: Literal["json", "csv", "paths", "coco", "labelstudio"] = "json",
        *,
        filter: Filter | None = None,
        ids: Sequence[int] | None = None,
        on_item: Callable[[Item], None] | None = None,
        relative: bool = False,
    ) -> Iterator[str]:
        """The text that `export` writes, piece by piece; `on_item` is called with each item.

        With `ids`, the items are these, in this order. With `relative`, paths are relative to their source; see
        `relative_paths`.
        """
        return export.item_lines(self._store, format, filter, on_item, ids=ids, relative=relative)
