"""Sentences to measure with: varied in length and words, the same for the same seed."""

import random


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


NAMES = _listed(
    "Amelia, Daniel, Sofia, Henry, Grace, Oliver, Nora, Peter, Lucy, Martin, Hannah, George, Clara, Victor"
)
PLACES = _listed(
    "the harbour,the old town,Lisbon,the north gate,Oak Street,the central library,Vienna,"
    "the airport,the second floor,Bristol,the mountain hut,the railway museum,Chicago"
)
THINGS = _listed(
    "parcel,passport,invoice,bicycle,prescription,laptop,contract,season ticket,umbrella,"
    "suitcase,library book,piano,garden chair,water bill,camera,wedding cake"
)
STATES = _listed(
    "ready,on its way,not yet confirmed,almost finished,more expensive than before,open again,"
    "closed for repairs,in very good hands,much quieter than last year,worth the journey"
)
ACTS = _listed(
    "call us back,press one,bring your papers,wait by the entrance,check the timetable,"
    "reply to this message,take the blue line,ask for the manager,keep the receipt,"
    "turn left at the bridge,close the window,write down the number"
)
TIMES = _listed(
    "on Monday,before nine o'clock,tomorrow morning,in twenty minutes,next spring,at noon,"
    "after the concert,by the end of the week,every second Thursday,on the third of May"
)
REASONS = _listed(
    "the weather is getting worse,the lift is out of order,nobody answered the telephone,"
    "the road along the river is flooded,two of our colleagues are ill,the train was late,"
    "we have changed our opening hours,the first edition was sold out within a day"
)

LONG = (
    "When {name} arrived at {place} {time}, the first thing to notice was that {reason}; still, "
    "somebody had to {act}, and {other} said that the {thing} would be {state} {othertime}."
)
TEMPLATES = (
    "{act}!",
    "Thank you, {name}.",
    "Is {place} {state}?",
    "Your {thing} is {state}.",
    "{name} will {act} {time}.",
    "Please {act} {time}, {name}.",
    "Good morning, {name}. Your {thing} is {state}.",
    "The {thing} from {place} is {state}, because {reason}.",
    "We are sorry, but {reason}. Please {act} {time}.",
    "{name} left the {thing} at {place}, and {other} found it {time}.",
    "If {reason}, you may {act}, or {name} can meet you at {place} {time}.",
    "Reminder: the {thing} for {name} costs {number} euros and must be paid {time}.",
    "Flight {number} to {place} is {state}; passengers with a {thing} should {act} {time}.",
    "{name} told {other} that {reason}, so they decided to {act} and to leave {place} {time}.",
    "Although the {thing} was {state}, {name} had to {act} {time}; {other} went back to {place}.",
    LONG,
)


def texts(count: int, seed: int = 0) -> list[str]:
    """So many different sentences."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[_sentence(chance)] = None
    return list(found)


def _sentence(chance: random.Random) -> str:
    name, other = chance.sample(NAMES, 2)
    time, othertime = chance.sample(TIMES, 2)
    sentence = chance.choice(TEMPLATES).format(
        name=name,
        other=other,
        place=chance.choice(PLACES),
        thing=chance.choice(THINGS),
        state=chance.choice(STATES),
        act=chance.choice(ACTS),
        time=time,
        othertime=othertime,
        reason=chance.choice(REASONS),
        number=chance.randrange(2, 990),
    )
    return sentence[0].upper() + sentence[1:]
