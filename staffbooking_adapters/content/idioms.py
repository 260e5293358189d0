"""Names and idioms in which a blocked word is harmless."""

from __future__ import annotations

import re

from attrs import evolve

from staffbooking_adapters.content.folding import Folded

_NAME_PATTERN = re.compile(
    r"\b(?:Dick|Cocks?|Kike|Fuk)(?:['’]s)?(?=\s+(?:[A-Z][a-z]|(?:van|von|de)\s))"
    r"|\b(?:[A-Z]|Mr|Mrs|Ms|Dr)\.\s(?:Dick|Cocks?|Fuk)\b"
)
"""A capitalized word that is also a name, next to another name: Dick Van Dyke, Cock Lane."""

_IDIOM_PATTERN = re.compile(
    r"""\b(?:
        (?:same|opposite|either|fairer|weaker)[\s-]sex
      | sex[ ]and[ ]the[ ]city | sex[ ]on[ ]the[ ]beach | (?:male|female|other)[ ]sex
      | sex[ ]?(?:[:/=]|pistols|education\b)
      | porn[ ]?star[ ]martinis? | screaming[ ]orgasms? | slippery[ ]nipples?
      | pussy[\s-](?:willows?|riot|bows?|foot) | cock[\s-]and[\s-]bull
      | cocks?[ ]crow\w{0,4} | cock['\s]?s?[\s-]comb
      | rape[\s-]?(?:seed|oil|fields?)
      | klockan[ ](?:halv[ ])?sex | sex[ ](?:personer|timmar|minuter|dagar|veckor|kronor)
      | (?:ar|er|tar|till?|ta|var|vid|ved)[ ]slut | slut[ ](?:pa|kl|med|nu)
      | tits?[ ]for[ ]tat | (?:great|blue|coal)[ ]tits? | ass(?:'s)?[ ]milk | wild[ ]ass
    )""",
    re.VERBOSE,
)


def without_names(text: str) -> str:
    """An unfolded text without such names."""
    return _NAME_PATTERN.sub(" ", text)


def without_idioms(folded: Folded) -> Folded:
    """A folded text without such idioms."""
    return evolve(
        folded,
        native=_IDIOM_PATTERN.sub(" ", folded.native),
        latin=_IDIOM_PATTERN.sub(" ", folded.latin),
    )
