"""What the sample's people say about each other, and where they meet."""

from __future__ import annotations

from random import Random

VENUES = {
    "Lisbon": (
        "LX Factory, Rua Rodrigues de Faria 103, Lisbon",
        "Estufa Fria, Parque Eduardo VII, Lisbon",
        "Rua do Alecrim 12, 2nd floor, Lisbon",
        "Pavilhão Carlos Lopes, Avenida Sidónio Pais 16, Lisbon",
    ),
    "Porto": (
        "Alfândega do Porto, Rua Nova da Alfândega, Porto",
        "Rua das Flores 120, Porto",
    ),
    "London": (
        "Old Spitalfields Market, 16 Horner Square, London",
        "Somerset House, Strand, London",
        "41 Lamb's Conduit Street, London",
    ),
    "Berlin": ("Arena Berlin, Eichenstraße 4, Berlin", "Torstraße 88, Hinterhof, Berlin"),
    "Zurich": ("Kongresshaus, Claridenstrasse 5, Zürich", "Limmatstrasse 44, Zürich"),
    "São Paulo": ("Rua Oscar Freire 379, São Paulo", "Pinacoteca, Praça da Luz 2, São Paulo"),
    "New York": ("26 Bridge Street, Brooklyn, New York", "Pier 60, Chelsea, New York"),
    "Tokyo": ("Spiral Hall, 5-6-23 Minami-Aoyama, Tokyo",),
    "Sydney": ("Pier One, 11 Hickson Road, Sydney",),
}

_PRAISE_BY_SERVICE = {
    "Bartender": (
        "The negronis were the talk of the evening.",
        "Kept a bar for eighty people moving without a queue.",
        "Invented a drink for the bride, and it was the best of the night.",
    ),
    "Waiter": (
        "Every plate was warm and every glass was full.",
        "Carried twelve tables as if there were three.",
    ),
    "Host": (
        "Greeted two hundred guests and remembered half of their names.",
        "The registration desk never had a queue.",
    ),
    "Security": (
        "Calm at the door all night, and nobody felt watched.",
        "Settled one loud moment so quietly that most guests missed it.",
    ),
    "Photographer": (
        "The pictures came the next morning, and they are wonderful.",
        "Caught the moments that we had missed ourselves.",
    ),
    "DJ": (
        "The dance floor was full from ten until the lights came on.",
        "Read the room from the first record.",
    ),
    "Chef": (
        "The sea bass is still being discussed.",
        "Cooked for fourteen with three allergies, and nobody noticed the difference.",
    ),
    "Event manager": (
        "The caterer was late and not one guest found out.",
        "A run sheet down to the minute, and a sense of humour on top.",
    ),
    "Barista": (
        "The best coffee that our fair has ever had.",
        "A hundred flat whites before noon, each with a perfect leaf.",
    ),
    "Sommelier": (
        "Paired six courses and never once lectured us.",
        "Found a bottle that my father-in-law approved of.",
    ),
    "AV technician": (
        "Sound, slides and stream just worked, for nine hours.",
        "Fixed a dead projector in four minutes.",
    ),
    "Interpreter": (
        "Our partners asked for the name, for their own next round.",
        "Fast, exact and almost invisible.",
    ),
    "Videographer": (
        "The film made half of the office cry.",
        "Quiet behind the camera, brilliant in the edit.",
    ),
}
_COMMENTS = {
    5: (
        "Arrived early, left the place spotless.",
        "We have booked again for the spring.",
        "Clear answers before the day, and a pleasure on it.",
        "Our guests asked for the name twice.",
        "Could not have gone better.",
    ),
    4: (
        "Ten minutes late because of the traffic, but wrote ahead.",
        "Very good work; we would agree on the breaks beforehand next time.",
        "Friendly and quick. The set-up took a little longer than planned.",
    ),
    3: (
        "Good at the work itself, but we had to ask twice about the schedule.",
        "Fine for the price. The second half of the evening felt a little tired.",
    ),
}
RESPONSES = {
    5: (
        "Thank you! It was a lovely evening, and a very kind crowd.",
        "That means a lot. See you in the spring!",
        "Thanks for the trust, and for the cake.",
    ),
    4: (
        "Thank you. I will plan more time for the bridge next time.",
        "Thanks, good point about the breaks: noted.",
    ),
    3: ("Thank you for the honest words. I have changed how I confirm schedules since.",),
}
"""Staff members' answers to a review, by its rating."""
CUSTOMER_COMMENTS = (
    "Clear brief, a warm team and water at the bar. A pleasure.",
    "Everything was ready when I arrived, and the thanks came in person.",
    "Kind hosts. The lift was broken, but they helped to carry.",
)
"""Staff members' reviews of customers."""

GREETINGS = (
    "Hello! We are celebrating with about forty people. Would that evening suit you?",
    "Hi, a friend told me about you. It is a small dinner, everything is on one floor.",
    "Good morning! We need you from the welcome to the last guest. Is that all right?",
    "Hello, it is our company's yearly party. I can send you the plan of the hall.",
    "Hi! We had you in mind from the first day. Do you still have that date?",
    "Hello! The guests come from five countries, so English would be best. Does it fit?",
)
"""Customers' first messages."""
ANSWERS = (
    "It does, and I look forward to it. I will be there half an hour before.",
    "Gladly! Tell me a little about the room, and I will bring what fits.",
    "Yes, that works. Is there a place to park near the entrance?",
    "With pleasure. I have worked there before, it is a lovely place.",
)
"""Staff members' answers to them."""
PORTFOLIO_TEXTS = (
    "A warm evening in {city}, with guests who stayed until the end.",
    "For a company of eighty, in the old town of {city}.",
    "An anniversary in {city}, planned in three weeks.",
    "One of my favourite days of last year.",
    "Small, quiet, and just as they wished.",
)
"""Descriptions of portfolio items, with {city}."""


def make_comment(random: Random, service: str, rating: int) -> str:
    """A customer's comment on a service."""
    comment = random.choice(_COMMENTS[rating])
    praise = _PRAISE_BY_SERVICE.get(service)
    return f"{random.choice(praise)} {comment}" if praise and rating >= 4 else comment
