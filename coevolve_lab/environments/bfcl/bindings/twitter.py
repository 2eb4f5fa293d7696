"""TwitterAPI: one account, a few tweets of it and of others, people that it follows."""

from __future__ import annotations

import random
from typing import Any

from coevolve_lab.environments.bfcl.bindings.common import (
    LOGGED_IN_SHARE,
    Arguments,
    Binder,
    chance,
    distinct,
    no_arguments,
    pick,
    some,
)
from coevolve_lab.environments.bfcl.names import Names


def start(names: Names, rng: random.Random) -> dict[str, Any]:
    me, *others = distinct(lambda: names.person(rng), rng.randint(4, 6))
    ids = distinct(lambda: names.number(rng, 10, 99), rng.randint(2, 4))
    tweets = {}
    for tweet_id in sorted(ids):
        content = names.text(rng)
        tweets[str(tweet_id)] = {
            "id": tweet_id,
            "username": me if chance(rng, 0.5) else rng.choice(others),
            "content": content,
            "tags": [f"#{content.split()[0]}"] if chance(rng, 0.5) else [],
            "mentions": [f"@{rng.choice(others)}"] if chance(rng, 0.3) else [],
        }
    return {
        "username": me,
        "password": names.password(rng),
        "authenticated": chance(rng, LOGGED_IN_SHARE),
        "tweets": tweets,
        "comments": {},
        "retweets": {},
        "following_list": some(rng, others, 2, 3),
        "tweet_counter": max(ids) + 1,
    }


def _authenticate(api: Any, _names: Names, _rng: random.Random) -> Arguments | None:
    return None if api.authenticated else {"username": api.username, "password": api.password}


def _post(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    if not api.authenticated:
        return None
    found: Arguments = {"content": names.text(rng)}
    if chance(rng, 0.4):
        found["tags"] = [f"#{word}" for word in distinct(lambda: names.word(rng), rng.randint(1, 2))]
    if chance(rng, 0.3):
        found["mentions"] = [f"@{names.person(rng)}"]
    return found


def _tweet(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    tweet_id = pick(rng, api.tweets)
    return None if tweet_id is None else {"tweet_id": tweet_id}


def _retweet(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    done = api.retweets.get(api.username, ())
    tweet_id = pick(rng, [key for key in api.tweets if key not in done])
    return None if not api.authenticated or tweet_id is None else {"tweet_id": tweet_id}


def _comment(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    found = _tweet(api, names, rng)
    return None if not api.authenticated or found is None else {**found, "comment_content": names.text(rng)}


def _mention(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    found = _tweet(api, names, rng)
    if found is None:
        return None
    return {**found, "mentioned_usernames": distinct(lambda: names.person(rng), rng.randint(1, 2))}


def _follow(api: Any, names: Names, rng: random.Random) -> Arguments | None:
    name = names.fresh(names.person, rng, [*api.following_list, api.username])
    return None if not api.authenticated or name is None else {"username_to_follow": name}


def _unfollow(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    name = pick(rng, api.following_list)
    return None if not api.authenticated or name is None else {"username_to_unfollow": name}


def _following(api: Any, _names: Names, _rng: random.Random) -> Arguments | None:
    return {} if api.authenticated else None


def _author(api: Any, _names: Names, rng: random.Random) -> Arguments | None:
    name = pick(rng, [tweet["username"] for tweet in api.tweets.values()])
    return None if name is None else {"username": name}


def _search(api: Any, names: Names, rng: random.Random) -> Arguments:
    words = [word for tweet in api.tweets.values() for word in tweet["content"].split()]
    return {"keyword": pick(rng, words) or names.word(rng)}


BINDERS: dict[str, Binder] = {
    "authenticate_twitter": _authenticate, "comment": _comment, "follow_user": _follow, "get_tweet": _tweet,
    "get_tweet_comments": _tweet, "get_user_stats": _author, "get_user_tweets": _author,
    "list_all_following": _following, "mention": _mention, "post_tweet": _post,
    "posting_get_login_status": no_arguments, "retweet": _retweet, "search_tweets": _search,
    "unfollow_user": _unfollow,
}  # fmt: skip
