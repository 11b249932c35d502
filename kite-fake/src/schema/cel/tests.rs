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
