//! What is said of rules when their schema is stored: the messages of cel-go's
//! checker, and costs as Kubernetes estimates them.
#![allow(clippy::unwrap_used, clippy::too_many_lines)]

use serde_json::{Value, json};

use super::super::model::Schema;
use super::review::review;

fn reviewed(schema: &Value, rule: &str) -> (Result<(), String>, u64) {
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let schema = Schema::from_json(&schema).unwrap();
    let found = review(&schema.rules[0], &schema);
    (found.rule, found.cost)
}

/// An object with members of many types.
fn object() -> Value {
    json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "d": {"type": "number"}, "s": {"type": "string"}, "b": {"type": "boolean"},
        "t": {"type": "string", "format": "date-time"}, "p": {"x-kubernetes-int-or-string": true},
        "o": {"type": "object", "properties": {"x-y": {"type": "integer"}, "namespace": {"type": "string"}}},
        "l": {"type": "array", "items": {"type": "integer"}}, "any": {"x-kubernetes-preserve-unknown-fields": true},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "e": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }})
}

#[test]
fn mistakes_are_shown_where_they_are() {
    for (rule, at, message) in [
        ("self.nope == 1", 5, "undefined field 'nope'"),
        ("self.any == 1", 5, "undefined field 'any'"),
        (
            "self.e.metadata.labels == {}",
            16,
            "undefined field 'labels'",
        ),
        (
            "self.n == 'a'",
            8,
            "found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            "self.n == 1.0",
            8,
            "found no matching overload for '_==_' applied to '(int, double)'",
        ),
        (
            "self.s + 1 == ''",
            8,
            "found no matching overload for '_+_' applied to '(string, int)'",
        ),
        (
            "self.s == null",
            8,
            "found no matching overload for '_==_' applied to '(string, null)'",
        ),
        ("self.n && true", 5, "expected type 'bool' but found 'int'"),
        (
            "nothing(self.n)",
            8,
            "undeclared reference to 'nothing' (in container '')",
        ),
        (
            "self.s.nothing()",
            15,
            "undeclared reference to 'nothing' (in container '')",
        ),
        (
            "other > 1",
            1,
            "undeclared reference to 'other' (in container '')",
        ),
        (
            "self.n.x == 1",
            7,
            "type 'int' does not support field selection",
        ),
        (
            "self.n.all(x, x > 1)",
            5,
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        (
            "self.l.all(x, x == 'a')",
            17,
            "found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            "self.l.sum() == 'a'",
            14,
            "found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            "self.m['a'] > 1",
            13,
            "found no matching overload for '_>_' applied to '(string, int)'",
        ),
        (
            "self.s.startsWith(1)",
            18,
            "found no matching overload for 'startsWith' applied to 'string.(int)'",
        ),
        (
            "[1, 'a'].size() > 1",
            5,
            "expected type 'int' but found 'string'",
        ),
        (
            "quantity('1') > quantity('2')",
            15,
            "found no matching overload for '_>_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'",
        ),
        (
            "self.?s.orValue(1) == 's'",
            16,
            "found no matching overload for 'orValue' applied to 'optional_type(string).(int)'",
        ),
        ("self.s.matches('(')", 16, "invalid matches argument"),
        (
            "self.t > timestamp('now')",
            20,
            "invalid timestamp argument",
        ),
        (
            "duration('1 day') > duration('1h')",
            10,
            "invalid duration argument",
        ),
        ("has(self)", 5, "invalid argument to has() macro"),
        ("self.l.all(1, true)", 12, "argument must be a simple name"),
    ] {
        let dots = ".".repeat(at - 1);
        let text =
            format!("compilation failed: ERROR: <input>:1:{at}: {message}\n | {rule}\n | {dots}^");
        assert_eq!(reviewed(&object(), rule).0, Err(text), "{rule}");
    }
}

#[test]
fn mistakes_are_counted_by_line_and_in_their_order() {
    let (found, _) = reviewed(&object(), "self.a == 1 &&\nself.b == 'ü' || self.n == 'x'");
    let text = found.unwrap_err();
    assert!(text.starts_with("compilation failed: ERROR: <input>:1:5: undefined field 'a'\n | self.a == 1 &&\n | ....^\nERROR: <input>:2:8: found"), "{text}");
    assert!(text.ends_with("\nERROR: <input>:2:25: found no matching overload for '_==_' applied to '(int, string)'\n | self.b == 'ü' || self.n == 'x'\n | ...........．............^"), "{text}");
    let (found, _) = reviewed(&object(), "'ü' == self.n");
    assert_eq!(
        found.unwrap_err(),
        "compilation failed: ERROR: <input>:1:5: found no matching overload for '_==_' applied to '(string, int)'\n | 'ü' == self.n\n | .．..^"
    );
}

#[test]
fn what_follows_no_grammar_is_told_in_its_words() {
    let (found, _) = reviewed(&object(), "self.n >");
    let text = found.unwrap_err();
    assert!(text.starts_with("compilation failed: ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {"), "{text}");
    assert!(text.ends_with("\n | self.n >\n | ........^"), "{text}");
}

#[test]
fn rules_give_a_bool() {
    for (rule, fits) in [("self.n", false), ("dyn(self.n)", false), ("self.b", true)] {
        let wanted = if fits {
            Ok(())
        } else {
            Err("cel expression must evaluate to a bool".to_owned())
        };
        assert_eq!(reviewed(&object(), rule).0, wanted, "{rule}");
    }
}

#[test]
fn what_rules_may_say_is_accepted() {
    for rule in [
        "self.n < 1.5 && self.d > 1 && 1u < self.d && dyn(self.n) == 1.0",
        "self.p == 1 || self.p == '1' || type(self.p) == string",
        "self.o.x__dash__y == 1 && self.o.__namespace__ == 'a'",
        "self.t > timestamp('2020-01-01T00:00:00Z') && self.t - self.t < duration('1h') && self.t.getFullYear('UTC') == 2020",
        "self.e.kind == 'A' && self.e.metadata.name.startsWith('a')",
        "self.m.all(k, v, k != v) && self.m.all(k, self.m[k] != '') && 'a' in self.m && self.n in self.l",
        "self.l.map(x, x * 2).filter(x, x > 1).exists_one(x, x == 2) && self.l.exists(i, v, i == v)",
        "self.l.transformList(i, v, i + v)[0] == 1 && self.m.transformMap(k, v, v.size())['a'] == 1",
        "self.m.transformMapEntry(k, v, {v: k})['a'] == 'b'",
        "self.?s.orValue('x') == 'x' && self.?o.?__namespace__.hasValue() && self.l[?0].optMap(x, x + 1).orValue(0) == 1",
        "cel.bind(x, self.s, x.size() > 1 && x == x)",
        "[?self.?n, 1].size() == 1 && {'a': 1, ?'b': self.?n}.size() == 1",
        "self.s.matches('^a') && self.s.find('a') == 'a' && self.s.split(',').join('-') == '' && '%s'.format([1]) == '1'",
        "isQuantity(self.s) && quantity(self.s).add(1).compareTo(quantity('1')) == 0",
        "isURL(self.s) && url(self.s).getQuery()['a'][0] == 'b' && isIP(self.s) && ip(self.s).family() == 4",
        "cidr(self.s).containsIP(ip('1.1.1.1')) && cidr(self.s).ip() == ip(self.s) && string(ip('::1')) == '::1'",
        "!format.dns1123Label().validate(self.s).hasValue() && format.named('uuid').hasValue()",
        "semver('1.2.3').isLessThan(semver(self.s)) && sets.contains(self.l, [1]) && self.l.isSorted() && self.l.min() == 1",
        "self == oldSelf && (self.n > 1 ? self.s : 'a') == 'b' && -self.n < -1 && !(self.n == 0x10) && b'a' == b'a'",
        "type(self.t) == google.protobuf.Timestamp && {}.size() == 0 && [].size() == 0 && r'\\d' == '\\\\d'",
        "self.l.sortBy(x, -x)[0] == 1 && self.l.sort() == self.l && self.l.distinct().size() == 1",
    ] {
        assert_eq!(reviewed(&object(), rule).0, Ok(()), "{rule}");
    }
}

/// Adds limits wherever a schema can have one.
fn limited(schema: &Value, max: u64) -> Value {
    let mut schema = schema.clone();
    match schema["type"].as_str() {
        Some("array") => schema["maxItems"] = json!(max),
        Some("string") => schema["maxLength"] = json!(max),
        Some("object") if schema["additionalProperties"].is_object() => {
            schema["maxProperties"] = json!(max);
        }
        _ => {}
    }
    schema
}

/// The cost without a limit, and with `max` as the limit of the value itself.
fn costs(schema: &Value, rule: &str, max: u64) -> (u64, u64) {
    let (plain, free) = reviewed(schema, rule);
    let (bounded, limited) = reviewed(&limited(schema, max), rule);
    assert_eq!((plain, bounded), (Ok(()), Ok(())), "{rule}");
    (free, limited)
}

#[test]
fn costs_of_simple_values_are_those_of_kubernetes() {
    let of = |kind: &str| match kind {
        "date" | "date-time" | "duration" => json!({"type": "string", "format": kind}),
        "int-or-string" => json!({"x-kubernetes-int-or-string": true}),
        kind => json!({"type": kind}),
    };
    let list = |kind: &str| json!({"type": "array", "items": of(kind)});
    let map = |kind: &str| json!({"type": "object", "additionalProperties": of(kind)});
    let lists = json!({"type": "array", "items": list("number")});
    let maps = json!({"type": "array", "items": map("number")});
    let text = of("string");
    for (schema, rule, free, max, limited) in [
        (&list("number"), "self.all(x, true)", 4_718_591, 10, 32),
        (&list("string"), "self.all(x, true)", 3_145_727, 20, 62),
        (&list("boolean"), "self.all(x, true)", 1_887_437, 5, 17),
        (&lists, "self.all(x, true)", 3_145_727, 100, 302),
        (&map("number"), "self.all(x, true)", 1_348_169, 10, 32),
        (&map("string"), "self.all(x, true)", 1_179_647, 3, 11),
        (&map("boolean"), "self.all(x, true)", 943_718, 100, 302),
        (&text, "self.contains('test')", 314_574, 10, 5),
        (&text, "self.startsWith('test')", 2, 15, 2),
        (
            &text,
            "size(self + \"hello\") > size(\"hello\")",
            314_578,
            4,
            7,
        ),
        (&list("number"), "self[1] == 0.0", 2, 5000, 2),
        (&list("string"), "self[1] == self[1]", 314_577, 8, 314_577),
        (
            &list("number"),
            "self.all(x, self.all(y, true))",
            0,
            10,
            352,
        ),
        (
            &list("number"),
            "self.all(x, self.all(y, self.all(z, true)))",
            0,
            10,
            3552,
        ),
        (&text, "self.matches(\"x\")", 314_574, 50, 22),
        (
            &text,
            "\"\".matches(\"(((((((((())))))))))[0-9]\")",
            7,
            10,
            7,
        ),
        (&text, "self.matches(\"\")", 1, 100, 1),
        (&map("number"), "self[\"x\"] == 0.0", 2, 0, 2),
        (&text, "self == \"x\"", 2, 0, 1),
        (
            &list("number"),
            "self.all(x, x == 0.0)",
            6_291_454,
            3 * 1024 * 2048,
            25_165_826,
        ),
        (
            &list("int-or-string"),
            "self.all(x, true)",
            4_718_591,
            10,
            32,
        ),
        (&list("int-or-string"), "self[0] == 5", 3, 10, 3),
        (&lists, "self[0][0] == -1.0", 3, 51, 3),
        (&maps, "self.all(x, x.y == 25.2)", 6_291_452, 12, 74),
        (&maps, "self[0].x > 2.0", 4, 3000, 4),
        (&list("duration"), "self.all(x, true)", 2_359_295, 5, 17),
        (&list("duration"), "self[0].getHours() == 2", 4, 525, 4),
        (&list("date"), "self.all(x, true)", 725_936, 15, 47),
        (&list("date-time"), "self.all(x, true)", 428_963, 25, 77),
        (&map("duration"), "self.all(x, true)", 1_048_577, 5, 17),
        (&text, "self.find('[0-9]+') == ''", 629_147, 10, 11),
        (&text, "self.lowerAscii() == 'lower!'", 314_575, 10, 6),
        (&map("integer"), "oldSelf.size() == self.size()", 5, 10, 5),
        (&map("date-time"), "self[\"a\"] == self[\"b\"]", 8, 7, 8),
    ] {
        let (without, with) = costs(schema, rule, max);
        // Where nothing bounds loops within loops, the cost is beyond any budget.
        assert!(
            without == free || free == 0 && without > 10_000_000,
            "{rule} of {schema}: {without}"
        );
        assert_eq!(with, limited, "{rule} of {schema}");
    }
}

#[test]
fn costs_of_what_has_parts_are_those_of_kubernetes() {
    let inner = json!({"type": "object", "required": ["required"],
        "properties": {"required": {"type": "string"}, "optional": {"type": "string"}}});
    let map = json!({"type": "object", "additionalProperties": inner});
    assert_eq!(costs(&map, "self.all(x, true)", 20), (428_963, 62));
    let join = |text: &Value| json!({"type": "array", "items": text});
    let (free, short) = (
        json!({"type": "string"}),
        json!({"type": "string", "maxLength": 10}),
    );
    for (rule, unbounded, bounded) in [
        ("self.join(' ') == 'aa bb'", 329_853_068_905, 43),
        ("self.isSorted() == true", 329_854_432_052, 52),
    ] {
        assert_eq!(reviewed(&join(&free), rule), (Ok(()), unbounded));
        assert_eq!(
            reviewed(&limited(&join(&short), 10), rule),
            (Ok(()), bounded)
        );
    }
    let texts = |max: Option<u64>| {
        let text = max.map_or(
            free.clone(),
            |max| json!({"type": "string", "maxLength": max}),
        );
        let of = |max: u64| json!({"type": "string", "maxLength": max});
        json!({"type": "object", "properties": {"str": text, "separator": text, "before": of(2), "after": of(4)}})
    };
    let replace = "self.str.replace(self.before, self.after) == 'does not matter'";
    assert_eq!(reviewed(&texts(None), replace).1, 629_154);
    assert_eq!(reviewed(&texts(Some(4)), replace).1, 12);
    let split = "self.str.split(self.separator) == []";
    assert_eq!(reviewed(&texts(None), split).1, 629_160);
    assert_eq!(reviewed(&texts(Some(10)), split).1, 22);
    let named = json!({"type": "string", "enum": ["A", "B", "C", "LongValue"]});
    assert_eq!(costs(&named, "self.contains('A')", 1000), (2, 401));
}
