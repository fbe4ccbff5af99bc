"""Queries and options of ``cosi.resource.State``, read from requests."""

from collections.abc import Sequence

from talos.api.cosi import resource_pb2, state_pb2
from talos.api.rpc import Code, RpcError
from talos.resource.pattern import Pattern
from talos.resource.pattern_syntax import PatternError
from talos.resource.query import ALL, LabelTerm, Operator, Query
from talos.resource.state import (
    WatchOptions,
)

MAX_TERMS = 64
"""Label terms of a query: all of them are compared with the labels of every resource."""
MAX_VALUES = 64
"""Values of one label term."""
SHOWN_PATTERN = 128
"""Characters of a refused pattern that the error repeats."""


def parse_query(label_queries: Sequence[resource_pb2.LabelQuery], id_query: resource_pb2.IDQuery) -> Query:
    """A query from the wire; RpcError when it is malformed, not supported or too large."""
    if len(label_queries) > MAX_TERMS or sum(len(query.terms) for query in label_queries) > MAX_TERMS:
        raise RpcError(Code.INVALID_ARGUMENT, f"a query has at most {MAX_TERMS} label terms")
    labels = tuple(tuple(_parse_term(term) for term in label_query.terms) for label_query in label_queries)
    if not labels and not id_query.regexp:
        return ALL
    try:
        pattern = Pattern(id_query.regexp) if id_query.regexp else None
    except PatternError as error:
        shown = repr(id_query.regexp[:SHOWN_PATTERN])
        raise RpcError(Code.INVALID_ARGUMENT, f"the id query {shown} is not supported: {error}") from error
    return Query(labels=labels, id_pattern=pattern)


def _parse_term(term: resource_pb2.LabelTerm) -> LabelTerm:
    try:
        operator = Operator(term.op)
    except ValueError as error:
        raise RpcError(Code.UNIMPLEMENTED, f"unsupported label query operator: {term.op}") from error
    if len(term.value) > MAX_VALUES:
        raise RpcError(Code.INVALID_ARGUMENT, f"a label term has at most {MAX_VALUES} values")
    return LabelTerm(key=term.key, operator=operator, values=tuple(term.value), invert=term.invert)


def parse_watch_options(request: state_pb2.WatchRequest) -> WatchOptions:
    """How a watch begins; RpcError when that is contradictory or not supported."""
    given = request.options
    if request.HasField("id"):
        for is_set, name in (
            (given.bootstrap_contents, "bootstrap_contents"),
            (given.bootstrap_bookmark, "bootstrap_bookmark"),
            (len(given.label_query) > 0, "label_query"),
            (bool(given.id_query.regexp), "id_query"),
        ):
            if is_set:
                raise RpcError(Code.UNIMPLEMENTED, f"{name} is not supported in the watch of one resource")
    bookmark = given.start_from_bookmark if given.HasField("start_from_bookmark") else None
    ways = sum(
        (given.bootstrap_contents, given.bootstrap_bookmark, given.tail_events > 0, bookmark is not None)
    )
    if ways > 1 or given.tail_events < 0:
        raise RpcError(
            Code.INVALID_ARGUMENT,
            "a watch begins in one way: with contents, with a bookmark, at the tail or from a bookmark",
        )
    return WatchOptions(
        bootstrap=given.bootstrap_contents,
        bootstrap_bookmark=given.bootstrap_bookmark,
        tail=given.tail_events,
        bookmark=bookmark,
        aggregated=given.aggregated,
    )
