"""Detects contact and payment details that bypass the platform: e-mail addresses, links, user names
on other platforms, phone and account numbers.

Every pattern starts with a specific character and has bounded repetitions, so matching takes
linear time for hostile texts too.
"""

from __future__ import annotations

import re

from staffbooking_adapters.content.folding import fold
from staffbooking_adapters.content.numbers import has_number

_GAP_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])(?<![^\W_][^\W\d_])[ ]{1,3}(?=[^\W\d_](?![^\W_]))")

# Words for signs (at, dot, slash) are replaced by the signs first.

_OPEN, _CLOSE = r"\s{0,3}[(\[{<*~_-]{1,2}\s?", r"\s?[)\]}>*~_-]{1,2}\s{0,3}"
_AT_WORD = f"(?:arroba|chiocciola|arobase|klammeraffe|malpa|kukac|{fold('собака').latin})"
_DOT_WORD = f"(?:d[o0]t|punkt|kropka|nokta|{fold('точка').latin})"
_AT = re.compile(
    rf"(?=[\s(\[{{<*~_-])"
    rf"(?:{_OPEN}(?:at|ät|@|a|{_AT_WORD}){_CLOSE}|\s{{1,3}}{_AT_WORD}\s{{1,3}})"
)
_DOT = re.compile(
    rf"(?=[\s(\[{{<*~_-])(?:{_OPEN}(?:{_DOT_WORD}|\.|punto|ponto|point){_CLOSE}"
    r"|(?<!\bthe)(?<!\ba)\s{1,3}"
    rf"(?:(?:{_DOT_WORD}|\.)\s{{1,3}}|(?:punto|ponto|point)\s{{1,3}}(?=(?:com|org)\b)))"
)
_SLASH = re.compile(r"\s{1,3}slash\s{1,3}")

_TOP_LEVEL_DOMAIN = (
    r"(?:com|net|org|info|biz|io|app|dev|xyz|online|site|shop|store|club|link|page|gg|ee|"
    r"ly|eu|uk|de|fr|pl|ru|nl|ch|dk|fi|gr|cz|hu|ro|pt|br|mx|ar|nz|tr|jp|cn|kr|ua|ie|"
    r"edu|gov|events|agency|email|bio|vip)"
)
"""Top-level domains that are not words of common languages: a word after a full stop without a
space is not a domain."""
_AMBIGUOUS_TOP_LEVEL_DOMAIN = (
    r"(?:it|es|at|be|me|to|in|is|no|so|us|la|se|tv|am|my|co|id|cc|ws|im|ms|pm|sh|ca|au|live|pro)"
)
_COMMON_TOP_LEVEL_DOMAIN = r"(?:com|net|org)"
_WORD_END = r"(?![^\W_])"
_MAIL_PROVIDER = (
    r"(?:g[\s-]?mail|google\s?mail|hot\s?mail|proton\s?mail|tutanota|i\s?cloud|gmx|yahoo|ymail)"
)

_EMAIL_ADDRESS = re.compile(
    rf"""
      @\s{{0,3}}
        (?: [\w-]{{1,63}}\.[a-z]{{2}} | [\w-]{{1,63}}\s{{0,3}}[.,]\s{{0,3}}
            {_COMMON_TOP_LEVEL_DOMAIN}{_WORD_END}
          | (?:{_MAIL_PROVIDER}|outlook|aol|proton|live|web|yandex|qq|mail){_WORD_END}
          | (?:ok(?:icici|sbi|axis|hdfcbank)|ybl|paytm|upi|apl|ibl){_WORD_END} )
    | \bat\s{{1,3}}{_MAIL_PROVIDER}{_WORD_END}
    | \b(?:{_MAIL_PROVIDER}|e-?mail)\s?(?:is|:|=|ist|es|est)\s{{0,2}}[a-z][a-z.]{{1,30}}[\d_]
    """,
    re.VERBOSE,
)

_ALLOWED_LINK = re.compile(
    r"(?<![\w.])(?:https?://)?(?:www\.)?"
    r"(?:maps\.(?:google|apple)\.[a-z.]{2,6}|google\.[a-z.]{2,6}/maps"
    r"|goo\.gl/maps|maps\.app\.goo\.gl|openstreetmap\.org|booking\.com"
    r"|(?:[a-z]{2}\.)?wikipedia\.org)"
    r"(?:/[^\s]{0,300})?"
)
"""Links to maps and reference sites, which are no contact details."""

_AFTER_HYPHEN = "(?:" + "|".join(rf"(?<=\w-\w{{{n}}})" for n in range(3, 13)) + ")"

_LINK = re.compile(
    rf"""
    (?=[:wd\s.])
    (?: :\s?/\s?/\s?[^\W_] | \bwww\s{{0,2}}\.
      | (?<=[^\W_])\s\.{_COMMON_TOP_LEVEL_DOMAIN}{_WORD_END}
      | (?<=[^\W_]{{3}})dot(?:com|net|org)\b
      | (?<=[^\W_])\.{_TOP_LEVEL_DOMAIN}{_WORD_END}
        (?!\s(?:la|las|los|el|nada|rien|un|une|mi|tu|acuerdo|toute?)\b)
      | (?<=[^\W_])\.[a-z]{{2,12}}/[\w$@-]
      | (?<=[^\W_]{{5}})\.{_AMBIGUOUS_TOP_LEVEL_DOMAIN}(?=[?!,;)]|\.?\s{{0,3}}$)
      | (?=\.){_AFTER_HYPHEN}\.{_AMBIGUOUS_TOP_LEVEL_DOMAIN}{_WORD_END} )
    """,
    re.VERBOSE | re.MULTILINE,
)

_SHORT_LINK = re.compile(
    rf"""(?<![\w'])
    (?: (?:wa|t|m|ig|fb|line|signal|telegram|viber|pay\s?pal|monzo|revolut|qr)\s?\.\s?me
      | (?:pay\s?pal|wa|t)\s?me\s?/\s?\w{{1,60}} | cash\s?\.\s?app | discord\s?\.\s?gg
      | linktr\s?\.\s?ee | bit\s?\.\s?ly | skype\s?:\s?\w{{1,60}} )
    {_WORD_END}
    """,
    re.VERBOSE,
)

_PLATFORM = (
    r"(?:whats\s?app|wapp|telegram|tg|instagram|insta|ig|snap\s?chat|snap|viber|we\s?chat|discord"
    r"|skype|kik|facebook|fb|messenger|tik\s?tok|threema|kakao(?:talk)?|line\sid|twitter"
    r"|linkedin|only\s?fans)\b"
)
_NOT_A_USER_NAME = (
    r"(?!(?:private|public|empty|new|old|down|closed|full|broken|blocked|fine|not|here|there|gone"
    r"|linked|connected|verified)\b)"
)
_PLATFORM_USER_NAME = re.compile(
    rf"""
    \b(?:
        {_PLATFORM}
        (?: [^\w\n@]{{0,3}}(?:(?:me|is|id|name|handle|user|username|account|on|at|as|under)
              [^\w\n@]{{1,3}}){{0,3}}(?:@\s?[a-z]|[a-z][a-z.]{{0,30}}[\d_#]|[a-z]{{2,30}}\.[a-z])
          | \s?[:=]\s?[a-z][\w.]{{3,30}}\s?(?=$|[\n,;!)|/]) )
      | my\s{_PLATFORM}\s(?:(?:name|id|handle|user)\s)?is\s{_NOT_A_USER_NAME}
          [a-z]\w{{3,30}}\s?(?=$|[\n.,;!)])
      | (?:find|add|follow|text|message|msg|dm|ping|reach|write|contact|hmu)\s(?:me\s)?
          (?:(?:on|at|up|to|via)\s)?@[a-z]\w{{3}} )
    | @[a-z0-9][\w.]{{2,30}}\s{{1,2}}(?:on|at|auf|en|sur|in|via)\s(?:my\s)?{_PLATFORM}
    | (?<![\w@])@(?:[a-z][a-z0-9]{{1,30}}[_.][a-z0-9]|[a-z]{{3,30}}\d{{2}})
    """,
    re.VERBOSE | re.MULTILINE,
)

_PAYMENT_SERVICE = (
    r"(?:pay\s?pal|venmo|zelle|cash\s?app|revolut|monzo|bizum|twint|g\s?pay|mobile\s?pay)"
)
_PAYMENT_DETAILS = re.compile(
    rf"""
      \b(?:venmo\b | cash\s?app\b | my\s(?:zelle|revolut|monzo)\b
        | {_PAYMENT_SERVICE}(?:\s(?:me|it\sto|handle|tag|id)\b|\s?[:=@$]\s?\w)
        | my\s{_PAYMENT_SERVICE}\s(?:(?:id|name|account)\s)?is\s{_NOT_A_USER_NAME}[a-z]
        | 0x[0-9a-f]{{40}}\b | bc1[a-z0-9]{{25,60}}\b | [13][a-z0-9]{{26,34}}\b )
    """,
    re.VERBOSE,
)

_CONTACT_PATTERNS = (_EMAIL_ADDRESS, _LINK, _SHORT_LINK, _PLATFORM_USER_NAME, _PAYMENT_DETAILS)


def has_contact(text: str) -> bool:
    """Whether a text folded to Latin letters contains contact or payment details."""
    if has_number(text):
        return True
    text = _GAP_BETWEEN_LETTERS.sub("", text)
    for pattern, sign in ((_AT, "@"), (_DOT, "."), (_SLASH, "/"), (_ALLOWED_LINK, " ")):
        text = pattern.sub(sign, text)
    return any(pattern.search(text) for pattern in _CONTACT_PATTERNS)
