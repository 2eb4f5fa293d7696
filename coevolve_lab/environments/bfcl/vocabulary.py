"""Words that the official BFCL classes know by heart: an argument outside of these fails or says nothing.

Facts about bfcl-eval's multi-turn classes, small enough to be kept here; the tests call the classes with every one.
"""

from __future__ import annotations

COMPANIES = ("Apple", "Google", "Tesla", "Microsoft", "Nvidia", "Zeta Corp", "Alpha Tech", "Amazon", "Gorilla",
             "Omega Industries", "Neptune Systems", "Synex Solutions")  # fmt: skip
SECTORS = ("Technology", "Automobile")

AIRPORT_CITIES = ("Rivermist", "Stonebrook", "Maplecrest", "Silverpine", "Shadowridge", "London", "Paris",
                  "Sunset Valley", "Oakendale", "Willowbend", "Autumnville", "Pinehaven", "Greenfield", "San Francisco",
                  "Los Angeles", "New York", "Chicago", "Boston", "Beijing", "Hong Kong", "Rome", "Tokyo")  # fmt: skip
ROUTES = tuple(
    (origin, destination)
    for origin, destinations in {
        "SFO": "LAX JFK ORD BOS RMS SBK CIA",
        "LAX": "SFO JFK ORD BOS SVP HND",
        "JFK": "ORD BOS LAX HND PEK OKD",
        "ORD": "LAX BOS RMS MPC SHD",
        "BOS": "RMS SBK OKD GFD",
        "RMS": "BOS JFK LAX SBK WLB",
        "SBK": "MPC SVP SHD SSV",
        "MPC": "SVP OKD CRH",
        "CRH": "SFO HKG JFK RMS",
        "OKD": "LAX WLB ATV",
        "LHR": "CDG",
        "WLB": "CRH PHV",
    }.items()
    for destination in destinations.split()
)
CABINS = {"economy": 1, "business": 2, "first": 5}
DEAREST_ECONOMY = 2000  # upper bound of get_flight_cost in economy, in USD
CURRENCIES = ("RMB", "EUR", "JPY", "GBP", "CAD", "AUD", "INR", "RUB", "BRL", "MXN")  # each against USD only

ZIPCODE_CITIES = ("Rivermist", "Stonebrook", "Maplecrest", "Silverpine", "Shadowridge", "Sunset Valley", "Oakendale",
                  "Willowbend", "Crescent Hollow", "Autumnville", "San Francisco")  # fmt: skip
ZIPCODE_PAIRS = (("83214", "74532"), ("56108", "62947"), ("71354", "83462"), ("47329", "52013"), ("69238", "51479"),
                 ("94016", "83214"), ("94016", "94704"), ("94704", "08540"), ("94016", "08540"), ("62947", "47329"),
                 ("94016", "62947"), ("74532", "94016"))  # fmt: skip
DOORS = ("driver", "passenger", "rear_left", "rear_right")
CAR_PARTS = ("fuel", "battery", "doors", "climate", "headlights", "parkingBrake", "brakePedal", "engine")
CLIMATE_MODES = ("auto", "cool", "heat", "defrost")

METRIC_UNITS = ("km", "m", "cm", "mm", "um", "nm")
IMPERIAL_PAIRS = (("cm", "in"), ("m", "ft"), ("m", "yd"), ("km", "miles"), ("kg", "lb"), ("celsius", "fahrenheit"))
