"""VehicleControlAPI: a car whose doors, brakes, engine, tank and tires vary."""

from __future__ import annotations

import random
from typing import Any

from coevolve_lab.environments.bfcl.bindings.common import Arguments, Binder, chance, no_arguments, pick, some
from coevolve_lab.environments.bfcl.names import Names
from coevolve_lab.environments.bfcl.vocabulary import (
    CAR_PARTS,
    CLIMATE_MODES,
    DOORS,
    ZIPCODE_CITIES,
    ZIPCODE_PAIRS,
)

TANK_GALLONS = 50
FULL_BRAKE_FORCE = 1000.0  # newton


def start(names: Names, rng: random.Random) -> dict[str, Any]:
    running = chance(rng, 0.45)
    locked = running or chance(rng, 0.65)
    pressed = not running and chance(rng, 0.75)
    engaged = not running and chance(rng, 0.5)
    cruising = running and chance(rng, 0.3)
    front, rear = rng.randint(28, 35), rng.randint(28, 35)
    return {
        "random_seed": rng.randint(1, 99999),
        "fuelLevel": rng.randint(5, 40) + rng.choice((0.0, 0.5)),
        "batteryVoltage": rng.randint(118, 130) / 10,
        "engineState": "running" if running else "stopped",
        "doorStatus": {door: "locked" if locked or chance(rng, 0.4) else "unlocked" for door in DOORS},
        "acTemperature": rng.randint(16, 28) + 0.0,
        "fanSpeed": rng.randint(1, 10) * 10,
        "acMode": rng.choice(CLIMATE_MODES),
        "humidityLevel": rng.randint(3, 7) * 10.0,
        "headLightStatus": rng.choice(("on", "off")),
        "parkingBrakeStatus": "engaged" if engaged else "released",
        "parkingBrakeForce": 500.0 if engaged else 0.0,
        "slopeAngle": rng.choice((0.0, 5.0, 10.0)),
        "brakePedalStatus": "pressed" if pressed else "released",
        "brakePedalForce": FULL_BRAKE_FORCE if pressed else 0.0,
        "distanceToNextVehicle": rng.randint(2, 10) * 10.0,
        "cruiseStatus": "active" if cruising else "inactive",
        "destination": _address(names, rng) if chance(rng, 0.4) else "None",
        "frontLeftTirePressure": front + 0.0,
        "frontRightTirePressure": front + rng.choice((0.0, 1.0)),
        "rearLeftTirePressure": rear + 0.0,
        "rearRightTirePressure": rear + rng.choice((0.0, 1.0)),
    }


def _address(names: Names, rng: random.Random) -> str:
    return f"{rng.randint(2, 99)} {names.word(rng)} {rng.choice(('street', 'road', 'avenue'))}"


def _start_engine(api: Any, _names: Names, _rng: random.Random) -> Arguments | None:
    ready = (
        api.remainingUnlockedDoors <= 0
        and api.brakePedalStatus == "pressed"
        and api._brakePedalForce == FULL_BRAKE_FORCE
        and api.engine_state == "stopped"
    )
    return {"ignitionMode": "START"} if ready else None


def _fill(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    room = int(TANK_GALLONS - api.fuelLevel)
    return {"fuelAmount": rng.randint(1, room)} if room >= 1 else None


def _doors(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    """Doors that are not yet in the wanted state; all that are left of them, half of the time."""
    state = rng.choice(("locked", "unlocked"))
    options = [door for door, now in api.doorStatus.items() if now == state]
    if not options:
        options = list(api.doorStatus)
        state = api.doorStatus[options[0]]
    doors = options if chance(rng, 0.5) else some(rng, options, 1, 2)
    return {"unlock": state == "locked", "door": doors}


def _climate(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    if chance(rng, 0.25):
        return {"temperature": rng.randint(60, 80), "unit": "fahrenheit"}
    found: Arguments = {"temperature": rng.randint(16, 28)}
    if chance(rng, 0.4):
        found["fanSpeed"] = rng.randint(1, 10) * 10
    if chance(rng, 0.5):
        found["mode"] = rng.choice(CLIMATE_MODES[1:])
    return found


def _headlights(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"mode": rng.choice(("on", "off", "auto"))}


def _status(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"option": rng.choice(CAR_PARTS)}


def _parking_brake(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"mode": rng.choice(("engage", "release"))}


def _brake(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"pedalPosition": 1.0 if chance(rng, 0.6) else rng.choice((0.2, 0.4, 0.5, 0.6, 0.8))}


def _cruise(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    if api.engine_state == "stopped":
        return None
    return {
        "speed": rng.randint(4, 24) * 5,
        "activate": chance(rng, 0.75),
        "distanceToNextVehicle": rng.randint(2, 20) * 10,
    }


def _log(_api: Any, names: Names, rng: random.Random) -> Arguments:
    return {"messages": [names.text(rng, 1, 2) for _ in range(rng.randint(1, 2))]}


def _mileage(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"distance": rng.randint(5, 90) * 10}


def _liter(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"liter": rng.randint(2, 99)}


def _gallon(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    return {"gallon": rng.randint(2, 50)}


def _distance(_api: Any, _names: Names, rng: random.Random) -> Arguments:
    one, other = rng.sample(rng.choice(ZIPCODE_PAIRS), 2)
    return {"cityA": one, "cityB": other}


def _zipcode(_api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    return {"city": pick(rng, ZIPCODE_CITIES)}


def _navigate(_api: Any, names: Names, rng: random.Random) -> Arguments:
    return {"destination": _address(names, rng)}


BINDERS: dict[str, Binder] = {
    "activateParkingBrake": _parking_brake, "adjustClimateControl": _climate, "check_tire_pressure": no_arguments,
    "displayCarStatus": _status, "display_log": _log, "estimate_distance": _distance,
    "estimate_drive_feasibility_by_mileage": _mileage, "fillFuelTank": _fill, "find_nearest_tire_shop": no_arguments,
    "gallon_to_liter": _gallon, "get_current_speed": no_arguments, "get_outside_temperature_from_google": no_arguments,
    "get_zipcode_based_on_city": _zipcode, "liter_to_gallon": _liter, "lockDoors": _doors,
    "pressBrakePedal": _brake, "releaseBrakePedal": no_arguments, "setCruiseControl": _cruise,
    "setHeadlights": _headlights, "set_navigation": _navigate, "startEngine": _start_engine,
}  # fmt: skip
