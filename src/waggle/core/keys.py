"""The words that may not be keys of a view (Section 3.1, "Canonical Local Interface").

A view holds no identity, roster, population size, non-neighbour state, global state or global
transcript, however the key is spelled: case, separators, camel case, plurals, accents, letters of
other scripts that look like Latin ones, digits in place of letters and invisible characters make no
difference, and neither do surrounding words (`size_of_swarm`, `the_agent_name_v2`) and numbers
(`agent_7`). Values are task content and are not checked. See docs/security.md for the guarantees
and their limits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

_BODY = (
    "agent|node|self|my|own|peer|neighbor|neighbour|worker|member|player|robot|bot|user|unit|"
    "teammate|sender|receiver|recipient|author|vertex|process|device|body|leader|other"
)
_TAG = "id|ident|identity|identifier|index|idx|name|key|rank|number|num|no|uid|uuid|label|address"
_MANY = "agent|node|member|peer|player|robot|worker|participant|teammate|vertex|bot|process|user"
_GROUP = f"population|swarm|team|group|network|graph|roster|fleet|crowd|colony|{_MANY}"
_COUNT = "size|count|total|number|num|cardinality"

_WHOLE: Mapping[str, re.Pattern[str]] = {
    "identity": re.compile(
        rf"(?:{_BODY})(?:{_TAG})|identity|identifier|username|whoami|who|agent|node|self|me|role"
        r"|persona|sender|receiver|recipient|author"
    ),
    "roster": re.compile(
        rf"(?:all|every|known|list|listof|other)?(?:{_MANY}|member)s|(?:{_MANY})list|roster"
        r"|membership|team|teammate|everyone|everybody|registry"
    ),
    "population-size": re.compile(
        rf"(?:{_GROUP})s?(?:{_COUNT})|(?:num|number|numberof|n|total|count|howmany)(?:of)?"
        rf"(?:{_GROUP})s?|population|headcount|nmax|ntotal|totaln"
    ),
    "non-neighbour": re.compile(
        rf"non(?:local|incident|adjacent)\w*|nonneighbou?r\w*|(?:remote|distant|far|other)"
        rf"(?:{_MANY}|state|view|trace|observation|commitment)|(?:two|second|2|multi)hop\w*"
    ),
    "global-state": re.compile(
        r"(?:world|full|system|swarm|whole|entire|complete|true|hidden|omniscient)(?:state|map|grid"
        r"|view|graph|board)|adjacency\w*|topology|graph|edge|edgelist|groundtruth|allstate"
        r"|all(?:view|trace|commitment|observation|evidence)|absolute(?:position|coordinate|xy)?"
        r"|coordinate|coord|consensus(?:state|value)"
    ),
    "global-transcript": re.compile(
        r"\w*transcript|conversation|dialogue?|blackboard|(?:chat|message|broadcast|public|shared"
        r"|group|full|team)(?:log|history|board|record|stream)|allmessage"
    ),
}
"""Patterns of the whole squashed key (letters and digits only, singular)."""

_TOKENS: Mapping[str, str] = {
    **dict.fromkeys(("id", "uid", "uuid", "guid", "identity", "identifier", "role"), "identity"),
    **dict.fromkeys(("roster", "participant", "teammate"), "roster"),
    **dict.fromkeys(("population", "headcount"), "population-size"),
    **dict.fromkeys(("nonneighbor", "nonneighbour", "nonlocal"), "non-neighbour"),
    **dict.fromkeys(("global", "globally", "omniscient", "adjacency"), "global-state"),
    **dict.fromkeys(("transcript", "blackboard"), "global-transcript"),
}
"""Single words that are forbidden anywhere in a key."""

_STEMS: Mapping[str, str] = {
    "transcript": "global-transcript",
    "global": "global-state",
    "roster": "roster",
    "population": "population-size",
    "identit": "identity",
    "nonneighbo": "non-neighbour",
    "identif": "identity",
    "headcount": "population-size",
    "blackboard": "global-transcript",
}
"""Stems too specific to occur in a harmless word; they match anywhere in the squashed key."""

_STRONG_BODY = "agent|node|robot|worker|member|player|peer|teammate|participant|vertex"
_STRONG_TAG = "id|ident|identity|identifier|index|idx|name|uid|uuid|guid|rank|number|label|address"
_STRONG_GROUP = f"population|swarm|team|fleet|colony|crowd|roster|network|{_STRONG_BODY}"
_STRONG_COUNT = "size|count|total|number|cardinality|quantity"
_FILLER = r"(?:of|for|in|the|a|an|this|that|all|each|every|total|whole|entire|per)*"
_INSIDE: Mapping[str, re.Pattern[str]] = {
    "identity": re.compile(
        rf"(?:{_STRONG_BODY})s?(?:{_STRONG_TAG})|(?:{_STRONG_TAG})s?(?:of|for){_FILLER}"
        rf"(?:{_STRONG_BODY}|self|me|sender|author)"
    ),
    "population-size": re.compile(
        rf"(?:{_STRONG_GROUP})s?(?:{_STRONG_COUNT})"
        rf"|(?:{_STRONG_COUNT}|num|howmany)(?:of|in){_FILLER}(?:{_STRONG_GROUP})"
        rf"|(?:num|number|howmany|total){_FILLER}(?:{_STRONG_GROUP})"
    ),
    "roster": re.compile(
        rf"(?:list|set|array|table|names?|map|ids)(?:of|for){_FILLER}(?:{_STRONG_GROUP})"
        rf"|(?:all|every)(?:of)?(?:the)?(?:{_STRONG_BODY})s"
    ),
    "global-state": re.compile(
        r"(?:state|map|view|graph)of(?:the)?(?:world|system|swarm|whole|network)|groundtruth"
        r"|(?:world|system|swarm)state|adjacency"
    ),
    "global-transcript": re.compile(
        r"(?:log|history|record)s?of(?:all|the|every)*(?:chat|message|conversation)"
        r"|(?:chat|conversation|message)(?:log|history)"
    ),
}
"""Patterns that match anywhere in the squashed key."""
_NUMBERED = re.compile(rf"(?:{_STRONG_BODY})\d")
"""A numbered body: the key itself names a node."""
_LOCAL = re.compile(r"near|neighbou?r|local|adjacent|visible|incident|contact|incoming|seen")
"""Words for incident things: a count of visible agents is not a population size, and the first of
the nearest ones is not a name."""
_LETTERS = (
    "aаɑαᴀ@ bвьβʙ cсϲᴄҫ dԁđᴅɗ eеєεᴇҽ fϝꜰƒ gɡցɢ hһнհʜħ iіιɩıɪ jјϳȷᴊ kкκᴋқ lӏⅼłʟ mмᴍ nпոηɴ"
    " oоοօᴏøσ pрρᴘþ qԛզ rгʀ sѕꜱς$ tтτᴛŧ uцυսᴜμ vѵνᴠ wԝωᴡѡ xхχ yуγʏү zᴢʐ"
)
"""Groups of a Latin letter followed by the letters that look like it."""
_CAPITALS = (
    "AΑАᎪ BΒВᏴ CϹСᏟ DᎠ EΕЕᎬ GᏀ HΗНᎻ IΙІ JЈᎫ KΚКᏦ LᏞ MΜМᎷ NΝ OΟОՕ PΡРᏢ RᎡ SЅՏᏚ TΤТᎢ VᏙ"
    " WᎳ XΧХ YΥУҮ ZΖᏃ"
)
"""The same for capitals, which look different in some scripts."""
_LATIN = {
    ord(other): group[0] for group in (*_LETTERS.split(), *_CAPITALS.split()) for other in group[1:]
}
_DIGITS = str.maketrans("013457", "oleast")
_DIGIT_INSIDE = re.compile(r"(?<=[a-z])[013457]+(?=[a-z])")
_NUMBER_AFTER = re.compile(r"(?<=[a-z]{2})\d+$")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")
_COMPASS = frozenset("nesw")
_SHAPELESS = frozenset(("Cc", "Cf", "Cn", "Mn", "Me"))
"""Unicode categories of characters that do not show by themselves, spaces apart."""
_FILLERS = frozenset("\u115f\u1160")
"""Hangul fillers, which count as letters and do not show either."""


def _shows(c: str) -> bool:
    return c.isspace() or (unicodedata.category(c) not in _SHAPELESS and c not in _FILLERS)


def _words(key: str) -> list[str]:
    """Return the words of a key in lower case, lookalike letters replaced by Latin ones."""
    plain = "".join(filter(_shows, unicodedata.normalize("NFKD", key))).translate(_LATIN)
    small = _HUMP.sub("_", plain).casefold().translate(_LATIN)
    return [w for w in _SEPARATOR.split(small) if w]


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word


@lru_cache(maxsize=8192)
def forbidden(key: str) -> str | None:
    """Return the forbidden category of a key, or None if the key may be shown."""
    words = _words(key)
    read = [_DIGIT_INSIDE.sub(lambda digit: digit[0].translate(_DIGITS), w) for w in words]
    unnumbered = [_NUMBER_AFTER.sub("", w) for w in read if not w.isdigit()]
    return _category(words) or _category(read) or _category(unnumbered)


def _category(words: list[str]) -> str | None:
    """Return the forbidden category of a key, given its words, or None."""
    for word in words:
        category = _TOKENS.get(word) or _TOKENS.get(_singular(word))
        if category:
            # "global transcript" belongs to the transcript category, not to the global state.
            rest = "".join(words)
            return "global-transcript" if "transcript" in rest else category
    squashed = "".join(words)
    if squashed in _TOKENS:
        return _TOKENS[squashed]
    for stem, category in _STEMS.items():
        if stem in squashed:
            return category
    forms = (squashed, _singular(squashed), "".join(map(_singular, words)))
    for form in forms:
        for category, pattern in _WHOLE.items():
            if pattern.fullmatch(form):
                return category
    for category, pattern in _INSIDE.items():
        if pattern.search(squashed) and not (
            category in ("population-size", "roster") and _LOCAL.search(squashed)
        ):
            return category
    if _NUMBERED.search(squashed) and not _LOCAL.search(squashed):
        return "identity"
    return None


@lru_cache(maxsize=8192)
def leak(keys: tuple[str, ...]) -> tuple[str, str] | None:
    """Return (key, category) of the first forbidden key of a mapping, or None.

    `n` counts as a population size unless the mapping has other compass points as keys.
    """
    for key in keys:
        category = forbidden(key)
        if category is not None:
            return key, category
        if key in ("n", "N") and not _COMPASS & {k.lower() for k in keys if k != key}:
            return key, "population-size"
    return None
