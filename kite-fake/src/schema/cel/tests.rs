//! What rules can say, each as the documentation of Kubernetes has it.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use kube_cel::cel::Value;

use super::program::Program;

fn holds(rule: &str) -> Result<Value, String> {
    let program = Program::compile(rule)?;
    let this = Value::from(HashMap::from([
        ("list", Value::from(vec![3i64, 1, 2])),
        ("text", Value::from("abc".to_owned())),
        ("number", Value::from(5i64)),
    ]));
    program.run(&[("self", this)])
}

#[test]
fn rules_of_the_documentation_hold() {
    for rule in [
        "self.list.all(x, x > 0) && self.list.exists(x, x == 2) && self.list.exists_one(x, x == 1)",
        "self.list.map(x, x * 2) == [6, 2, 4] && self.list.filter(x, x > 1).size() == 2",
        "cel.bind(n, self.list.size(), n == 3 && n > 2)",
        "cel.bind(a, 1, cel.bind(b, a + 1, a + b == 3))",
        "self.list.all(i, v, i < 3 && v > 0) && self.list.exists(i, v, i == 0 && v == 3)",
        "!self.list.existsOne(i, v, v > 1) && {'a': 1, 'b': 2}.all(k, v, k in ['a', 'b'] && v < 3)",
        "self.list.transformList(i, v, i + v) == [3, 2, 4] && self.list.transformList(i, v, i > 0, v) == [1, 2]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "self.list.sortBy(x, x) == [1, 2, 3] && self.list.sortBy(x, -x) == [3, 2, 1]",
        "self.list.isSorted() == false && self.list.sum() == 6 && self.list.min() == 1 && self.list.max() == 3",
        "self.list.indexOf(1) == 1 && self.text.indexOf('c') == 2 && self.text.upperAscii() == 'ABC'",
        "self.text.matches('^[a-z]+$') && self.text.find('b.') == 'bc' && 'a,b'.split(',') == ['a', 'b']",
        "quantity('1Gi').isGreaterThan(quantity('1M')) && isQuantity('10m') && !isQuantity('x')",
        "quantity('1').add(quantity('2')).compareTo(quantity('3')) == 0 && quantity('50k').asInteger() == 50000",
        "url('https://a.example:80/p?q=1').getHost() == 'a.example:80' && isURL('https://a') && !isURL('../a')",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && cidr('10.0.0.0/8').containsIP('10.1.1.1') && isCIDR('10.0.0.0/8')",
        "has(self.text) && !has(self.none) && self.?none.orValue('d') == 'd' && !self.?none.hasValue()",
        "self.?text.hasValue() && self.?none.?deeper.orValue(1) == 1 && self.list[?9].orValue(7) == 7",
        "optional.of(1).value() == 1 && optional.none().or(optional.of(2)).value() == 2",
        "type(self.number) == int && type(self.text) == string && dyn(self.number) == 5 && bool('true')",
        "duration('1h') > duration('59m') && timestamp('2024-01-02T00:00:00Z').getFullYear() == 2024",
        "'%s-%d'.format(['a', 1]) == 'a-1' && ['a', 'b'].join('-') == 'a-b' && 'abc'.substring(1) == 'bc'",
        "semver('1.2.3').isLessThan(semver('2.0.0')) && isSemver('1.0.0')",
        "!format.dns1123Label().validate('my-name').hasValue()",
        "math.greatest(1, 2) == 2 && sets.contains([1, 2], [1]) && base64.encode(b'hi') == 'aGk='",
        "1 < 2.5 && 3 / 2 == 1 && 7 % 4 == 3 && (self.number > 3 ? true : false)",
        "string(self.number) == '5' && int('7') == 7 && double(1) == 1.0 && 'b' in {'b': 1}",
    ] {
        assert_eq!(holds(rule), Ok(Value::Bool(true)), "{rule}");
    }
}

#[test]
fn errors_are_worded_as_by_the_api_server() {
    for (rule, error) in [
        ("self.none == 1", "no such key: none"),
        ("self.list[9] == 1", "index out of bounds: 9"),
        ("self.number / 0 == 1", "division by zero"),
        ("self.number % 0 == 1", "modulus by zero"),
        (
            "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, true)))",
            "operation cancelled: actual cost limit exceeded",
        ),
        (
            "lists.range(1000000000).size() > 0",
            "lists.range() takes 0 to 100000",
        ),
        ("9223372036854775807 + self.number > 0", "integer overflow"),
    ] {
        assert_eq!(holds(rule), Err(error.to_owned()), "{rule}");
    }
}

#[test]
fn hostile_values_give_answers_or_errors() {
    for rule in [
        "quantity('1e1000000000').sign() == 1",
        "quantity('1e-1000000000').sign() == 1",
        "!isQuantity('1E999999999999')",
    ] {
        assert_eq!(holds(rule), Ok(Value::Bool(true)), "{rule}");
    }
    // The library panics here; the server must not.
    let panics = "'%.999999999f'.format([1.0]) == ''";
    assert_eq!(holds(panics), Err("internal error".to_owned()));
    assert!(
        holds("timestamp('99999-01-01T00:00:00Z') > timestamp('2020-01-01T00:00:00Z')").is_err()
    );
    assert!(holds("-9223372036854775808 / -1 == 0 && 5 % 0 == 1").is_err());
}

#[test]
fn values_are_alike_as_in_cel_go() {
    for rule in [
        // Numbers are compared by value, whatever their types.
        "dyn(1) == 1.0 && dyn(1u) == 1 && dyn(2.0) != 1 && [1, dyn(2.0)] == [dyn(1.0), 2]",
        "self.number < 5.5 && self.number >= 4u && 1.5 > dyn(1) && dyn(1) in [dyn(1.0)]",
        "{'a': 1} == {'a': dyn(1.0)} && dyn(1u) in {1: 'a'}",
        "dyn('1') != 1 && dyn(null) != 1 && null == null && dyn([1]) != 1",
        "self.list != [1, 2] && self.list == [3, 1, 2] && self.list + [4] == [3, 1, 2, 4]",
        "type(1) != type(1.0) && type(null) == null_type && type([]) == list && type(type(1)) == type",
        "bytes('ab') == b'ab' && string(b'ab') == 'ab' && size(b'ab') == 2 && 'é'.size() == 1",
        "duration('60s') == duration('1m') && duration('90m').getMinutes() == 90 && string(duration('1h')) == '3600s'",
        "timestamp('2024-01-02T03:04:05Z') - timestamp('2024-01-02T03:04:04Z') == duration('1s')",
        "timestamp('2024-01-02T03:04:05Z').getHours('+02:00') == 5 && timestamp('2024-03-01T00:00:00Z').getMonth() == 2",
        "string(timestamp('2024-01-02T03:04:05Z')) == '2024-01-02T03:04:05Z' && int(timestamp('1970-01-01T00:00:01Z')) == 1",
        "int(2.9) == 2 && int('-3') == -3 && uint(3) == 3u && double('1.5') == 1.5 && string(1.5) == '1.5' && string(true) == 'true'",
        "'%d %s %.2f %x %b %e'.format([1, 'a', 1.5, 255, 5, 1.0]).startsWith('1 a 1.50 ff 101 ')",
        // Macros.
        "{'a': 1, 'b': 2}.transformMapEntry(k, v, {v: k}) == {1: 'a', 2: 'b'}",
        "{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v * 2) == {'b': 4} && {'a': 1}.transformList(k, v, k) == ['a']",
        "self.list[?0].optMap(x, x + 1).orValue(0) == 4 && !self.list[?7].optMap(x, x + 1).hasValue()",
        "optional.of('a').optMap(x, x + 'b').value() == 'ab'",
        "[?optional.of(1), ?optional.none()] == [1] && {?'a': optional.none(), 'b': 1} == {'b': 1}",
        "self.?text.orValue('') == 'abc' && self[?'none'].orValue(1) == 1 && has(self.?text.value) == false",
        "self.list.exists_one(x, x == 3) && [1, 2].all(x, [1, 2].exists(y, y == x)) && [[1]].all(x, x.all(y, y == 1))",
        "['b', 'a'].sortBy(x, x) == ['a', 'b'] && [1, 2].sort() == [1, 2] && [1, 1].distinct() == [1] && [[1], [2]].flatten() == [1, 2]",
        // One side decides even where the other fails.
        "(true || self.none == 1) && !(false && self.none == 1) && (self.none == 1 || true) && !(self.none == 1 && false)",
        "[1, 2].exists(x, x == 1 || self.none == 1) && ![1, 2].all(x, x > 5 && self.none == 1)",
        // Libraries.
        "quantity('1Gi').compareTo(quantity('1024Mi')) == 0 && quantity('1') == quantity('1000m') && quantity('0.5').asApproximateFloat() == 0.5",
        "quantity('2').sub(quantity('1')).isInteger() && quantity('-1').sign() == -1 && quantity('1').add(1).asInteger() == 2",
        "ip('127.0.0.1').isLoopback() && string(ip('::0001')) == '::1' && !isIP('1.2.3') && ip('10.0.0.1') == ip('10.0.0.1')",
        "cidr('192.168.0.0/24').masked() == cidr('192.168.0.0/24') && cidr('10.0.0.0/8').prefixLength() == 8 && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "url('https://a.b:8/p/q?x=1&x=2').getQuery() == {'x': ['1', '2']} && url('https://a.b/p q').getEscapedPath() == '/p%20q'",
        "format.dns1123Label().validate('A').hasValue()",
        "'a b c'.split(' ', 2) == ['a', 'b c'] && 'abcabc'.replace('b', 'x', 1) == 'axcabc' && 'abc'.lastIndexOf('c') == 2 && 'abc'.charAt(1) == 'b'",
        "'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1b2'.findAll('[0-9]', 1) == ['1'] && 'ab'.find('z') == ''",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('v1.2', true).minor() == 2 && !isSemver('v1')",
        "sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2]) && !sets.contains([1], [2])",
        "lists.range(3) == [0, 1, 2] && [1, 2, 3].slice(1, 2) == [2] && [1, 2].reverse() == [2, 1] && [1, 2].first().value() == 1",
    ] {
        assert_eq!(holds(rule), Ok(Value::Bool(true)), "{rule}");
    }
}

#[test]
fn a_loop_over_a_map_goes_by_its_sorted_keys() {
    let program =
        Program::compile("self.map(k, k).join(',') + self.filter(k, k > 'b')[0]").unwrap();
    for _ in 0..20 {
        let map: HashMap<String, i64> = ('a'..='h').rev().map(|c| (c.to_string(), 1)).collect();
        let made = program.run(&[("self", Value::from(map))]);
        assert_eq!(made, Ok(Value::from("a,b,c,d,e,f,g,hc".to_owned())));
    }
}
