"""Which versions of which models answer: new ones are loaded and warm before old ones are dropped."""

import dataclasses
import logging

from keras_bert.export.server.refusal import Refusal
from keras_bert.export.server.versions import Version, find_versions, load_version, stamp


@dataclasses.dataclass(frozen=True)
class Entry:
    """A version that was tried: the stamp of its files, and either what was loaded or why it was not."""

    stamp: tuple
    version: Version | None
    error: str = ""


class Models:
    """The served folders.

    Args:
        folders: dict from names to folders that hold version folders, or to one SavedModel.
        labels: dict from (name, label) to version numbers; these are served whatever is newer.
        keep: how many of the newest versions are served.
    """

    def __init__(self, folders, labels=None, keep=1):
        self.folders = folders
        self.labels = labels or {}
        self.keep = keep
        self._entries = {name: {} for name in folders}  # replaced whole, so that readers in other threads see one state
        self._seen = {}
        unknown = next((name for name, _ in self.labels if name not in folders), None)
        if unknown is not None:
            raise ValueError(f"A label must be one of {', '.join(folders)}, got one of `{unknown}`.")

    def load(self):
        """Loads what is there.

        Raises:
            ValueError: a model has no version, or one that does not load.
        """
        for name, folder in self.folders.items():
            found = find_versions(folder)
            if not found:
                raise ValueError(
                    f"{folder} must hold a SavedModel, or version folders such as {folder}/1 with one each. "
                    "`keras-bert export` writes them."
                )
            missing = [number for number in self._labelled(name) if number not in found]
            if missing:
                raise ValueError(f"{folder} must hold the versions that have labels, but {missing[0]} is not there.")
            for number in self._wanted(name, found):
                self._try(name, number, found[number], stamp(found[number]))
                error = self._entries[name][number].error
                if error:
                    raise ValueError(f"{found[number]} does not load: {error}")

    def refresh(self):
        """Looks for new versions once: loads them, then drops those that are no longer wanted.

        A version is loaded once its files were the same twice, so that one that is still being copied is left alone;
        one whose files change is loaded again. Nothing is dropped while a wanted version is not ready.
        """
        for name, folder in self.folders.items():
            found = find_versions(folder)
            wanted = self._wanted(name, found)
            for number in wanted:
                now = stamp(found[number])
                before = self._seen.get((name, number))
                self._seen[name, number] = now
                entry = self._entries[name].get(number)
                if now is not None and now == before and (entry is None or entry.stamp != now):
                    self._try(name, number, found[number], now)
            entries = self._entries[name]
            if wanted and all(number in entries and entries[number].version for number in wanted):
                self._entries[name] = {number: entries[number] for number in wanted}

    def find(self, name, number=None, label=None):
        """Gives the `Version` asked for: by number, by label, or the newest.

        Raises:
            Refusal: 404, there is none.
        """
        entries = self.entries(name)
        if label is not None:
            number = self.labels.get((name, label))
            if number is None:
                raise Refusal(404, f"Model {name} has no label {label}.")
        ready = {number: entry.version for number, entry in entries.items() if entry.version is not None}
        if not ready or (number is not None and number not in ready):
            asked = "no version" if number is None else f"no version {number}"
            raise Refusal(404, f"Model {name} has {asked} that answers; there are {sorted(ready)}.")
        return ready[max(ready) if number is None else number]

    def entries(self, name):
        """Gives dict number -> `Entry`; refuses an unknown name with 404."""
        if name not in self._entries:
            raise Refusal(404, f"There is no model {name}; this server has {', '.join(self._entries)}.")
        return self._entries[name]

    def newest(self, name):
        """The number of the newest version that answers, or 0."""
        return max((number for number, entry in self._entries[name].items() if entry.version is not None), default=0)

    def _labelled(self, name):
        return {number for (model, _), number in self.labels.items() if model == name}

    def _wanted(self, name, found):
        return sorted({*sorted(found)[-self.keep :], *(self._labelled(name) & found.keys())})

    def _try(self, name, number, path, now):
        """Loads a version; one that fails does not take the place of one that answers."""
        entries = self._entries[name]
        try:
            entry = Entry(now, load_version(path, number))
        except Exception as error:
            logging.getLogger(__name__).exception("%s does not load.", path)
            old = entries[number].version if number in entries else None
            entry = Entry(now, old, (str(error) or type(error).__name__).split("\n", 1)[0])
        self._entries[name] = {**entries, number: entry}
