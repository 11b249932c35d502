//! The operators and functions that rules may use: one line for each overload,
//! its name for cost estimates, its signature (`~` stands before the name of a
//! method) and its result. From the language definition of CEL and the
//! libraries of Kubernetes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::Type;

/// One overload of a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) id: String,
    /// The first argument is the value that the method is called on.
    pub(super) method: bool,
    pub(super) args: Vec<Type<'static>>,
    pub(super) result: Type<'static>,
}

/// The overloads of a function; `None` if there is none of that name.
pub(super) fn overloads(name: &str) -> Option<&'static [Overload]> {
    static ALL: LazyLock<BTreeMap<String, Vec<Overload>>> = LazyLock::new(read);
    ALL.get(name).map(Vec::as_slice)
}

fn read() -> BTreeMap<String, Vec<Overload>> {
    let mut all: BTreeMap<String, Vec<Overload>> = BTreeMap::new();
    let lines = DECLARATIONS.lines().map(str::to_owned);
    for line in lines.chain(comparisons()).chain(elements()) {
        if let Some((name, overload)) = declaration(&line) {
            all.entry(name).or_default().push(overload);
        }
    }
    all
}

/// `id receiver~name(arg,arg) result`
fn declaration(line: &str) -> Option<(String, Overload)> {
    let mut parts = line.split_whitespace();
    let (id, signature, result) = (parts.next()?, parts.next()?, parts.next()?);
    let (receiver, rest) = match signature.split_once('~') {
        Some((receiver, rest)) => (Some(receiver), rest),
        None => (None, signature),
    };
    let (name, args) = rest.split_once('(')?;
    let args = args.strip_suffix(')')?;
    let types = receiver.into_iter().chain(split(args)).map(parse);
    let overload = Overload {
        id: id.to_owned(),
        method: receiver.is_some(),
        args: types.collect(),
        result: parse(result),
    };
    Some((name.to_owned(), overload))
}

/// The parts between the commas that stand in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if from < text.len() {
        parts.push(&text[from..]);
    }
    parts
}

fn parse(text: &str) -> Type<'static> {
    if let Some((name, inner)) = text.split_once('(') {
        let inner = split(inner.strip_suffix(')').unwrap_or(inner));
        let part = |i: usize| Box::new(inner.get(i).map_or(Type::Dyn, |t| parse(t)));
        return match name {
            "list" => Type::List(part(0)),
            "map" => Type::Map(part(0), part(1)),
            "optional" => Type::Optional(part(0)),
            _ => Type::Of(part(0)),
        };
    }
    match text {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "quantity" => Type::Named("kubernetes.Quantity"),
        "url" => Type::Named("kubernetes.URL"),
        "ip" => Type::Named("net.IP"),
        "cidr" => Type::Named("net.CIDR"),
        "semver" => Type::Named("kubernetes.Semver"),
        "format" => Type::Named("kubernetes.NamedFormat"),
        "authorizer" => Type::Named("kubernetes.authorization.Authorizer"),
        "group" => Type::Named("kubernetes.authorization.GroupCheck"),
        "resource" => Type::Named("kubernetes.authorization.ResourceCheck"),
        "decision" => Type::Named("kubernetes.authorization.Decision"),
        "A" | "B" | "K" | "V" => Type::Param(text.chars().next().unwrap_or('A')),
        _ => Type::Dyn,
    }
}

/// What can be compared: types alike, and numbers with numbers.
fn comparisons() -> Vec<String> {
    const ALIKE: [(&str, &str); 8] = [
        ("bool", "bool"),
        ("int64", "int"),
        ("uint64", "uint"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "bytes"),
        ("timestamp", "timestamp"),
        ("duration", "duration"),
    ];
    let mut lines = Vec::new();
    for (operator, word) in [
        ("_<_", "less"),
        ("_<=_", "less_equals"),
        ("_>_", "greater"),
        ("_>=_", "greater_equals"),
    ] {
        for (id, of) in ALIKE {
            lines.push(format!("{word}_{id} {operator}({of},{of}) bool"));
        }
        for (left, a) in &ALIKE[1..4] {
            for (right, b) in ALIKE[1..4].iter().filter(|(right, _)| right != left) {
                lines.push(format!("{word}_{left}_{right} {operator}({a},{b}) bool"));
            }
        }
    }
    lines
}

/// Functions of lists whose elements are of certain types.
fn elements() -> Vec<String> {
    let mut lines = Vec::new();
    for of in [
        "int",
        "uint",
        "double",
        "bool",
        "duration",
        "timestamp",
        "string",
        "bytes",
    ] {
        lines.push(format!(
            "list_{of}_is_sorted_bool list({of})~isSorted() bool"
        ));
        lines.push(format!("list_{of}_min_{of} list({of})~min() {of}"));
        lines.push(format!("list_{of}_max_{of} list({of})~max() {of}"));
        lines.push(format!("list_{of}_sort list({of})~sort() list({of})"));
        lines.push(format!(
            "list_{of}_sortByAssociatedKeys list(A)~@sortByAssociatedKeys(list({of})) list(A)"
        ));
    }
    for of in ["int", "uint", "double", "duration"] {
        lines.push(format!("list_{of}_sum_{of} list({of})~sum() {of}"));
    }
    for (suffix, of, tz) in [("", "timestamp", ""), ("_with_tz", "timestamp", "string")] {
        for (name, id) in [
            ("getFullYear", "year"),
            ("getMonth", "month"),
            ("getDate", "day_of_month_1_based"),
            ("getDayOfMonth", "day_of_month"),
            ("getDayOfWeek", "day_of_week"),
            ("getDayOfYear", "day_of_year"),
            ("getHours", "hours"),
            ("getMinutes", "minutes"),
            ("getSeconds", "seconds"),
            ("getMilliseconds", "milliseconds"),
        ] {
            lines.push(format!("timestamp_to_{id}{suffix} {of}~{name}({tz}) int"));
        }
    }
    for (name, id) in [
        ("getHours", "hours"),
        ("getMinutes", "minutes"),
        ("getSeconds", "seconds"),
        ("getMilliseconds", "milliseconds"),
    ] {
        lines.push(format!("duration_to_{id} duration~{name}() int"));
    }
    for name in [
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "dns1123LabelPrefix",
        "dns1123SubdomainPrefix",
        "dns1035LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime",
    ] {
        lines.push(format!("format-{name} format.{name}() format"));
    }
    lines
}

const DECLARATIONS: &str = "
conditional _?_:_(bool,A,A) A
logical_and _&&_(bool,bool) bool
logical_or _||_(bool,bool) bool
logical_not !_(bool) bool
not_strictly_false @not_strictly_false(bool) bool
equals _==_(A,A) bool
not_equals _!=_(A,A) bool
add_int64 _+_(int,int) int
add_uint64 _+_(uint,uint) uint
add_double _+_(double,double) double
add_string _+_(string,string) string
add_bytes _+_(bytes,bytes) bytes
add_list _+_(list(A),list(A)) list(A)
add_duration_duration _+_(duration,duration) duration
add_duration_timestamp _+_(duration,timestamp) timestamp
add_timestamp_duration _+_(timestamp,duration) timestamp
subtract_int64 _-_(int,int) int
subtract_uint64 _-_(uint,uint) uint
subtract_double _-_(double,double) double
subtract_timestamp_timestamp _-_(timestamp,timestamp) duration
subtract_timestamp_duration _-_(timestamp,duration) timestamp
subtract_duration_duration _-_(duration,duration) duration
multiply_int64 _*_(int,int) int
multiply_uint64 _*_(uint,uint) uint
multiply_double _*_(double,double) double
divide_int64 _/_(int,int) int
divide_uint64 _/_(uint,uint) uint
divide_double _/_(double,double) double
modulo_int64 _%_(int,int) int
modulo_uint64 _%_(uint,uint) uint
negate_int64 -_(int) int
negate_double -_(double) double
index_list _[_](list(A),int) A
index_map _[_](map(K,V),K) V
optional_list_index_int _[_](optional(list(V)),int) optional(V)
optional_map_index_value _[_](optional(map(K,V)),K) optional(V)
list_optindex_optional_int _[?_](list(V),int) optional(V)
optional_list_optindex_optional_int _[?_](optional(list(V)),int) optional(V)
map_optindex_optional_value _[?_](map(K,V),K) optional(V)
optional_map_optindex_optional_value _[?_](optional(map(K,V)),K) optional(V)
in_list @in(A,list(A)) bool
in_map @in(K,map(K,V)) bool
size_string size(string) int
size_bytes size(bytes) int
size_list size(list(A)) int
size_map size(map(K,V)) int
string_size string~size() int
bytes_size bytes~size() int
list_size list(A)~size() int
map_size map(K,V)~size() int
contains_string string~contains(string) bool
starts_with_string string~startsWith(string) bool
ends_with_string string~endsWith(string) bool
matches matches(string,string) bool
matches_string string~matches(string) bool
type type(A) type(A)
to_dyn dyn(A) dyn
bool_to_bool bool(bool) bool
string_to_bool bool(string) bool
bytes_to_bytes bytes(bytes) bytes
string_to_bytes bytes(string) bytes
double_to_double double(double) double
int64_to_double double(int) double
string_to_double double(string) double
uint64_to_double double(uint) double
duration_to_duration duration(duration) duration
int64_to_duration duration(int) duration
string_to_duration duration(string) duration
int64_to_int64 int(int) int
double_to_int64 int(double) int
duration_to_int64 int(duration) int
string_to_int64 int(string) int
timestamp_to_int64 int(timestamp) int
uint64_to_int64 int(uint) int
string_to_string string(string) string
bool_to_string string(bool) string
bytes_to_string string(bytes) string
double_to_string string(double) string
duration_to_string string(duration) string
int64_to_string string(int) string
timestamp_to_string string(timestamp) string
uint64_to_string string(uint) string
ip_to_string string(ip) string
cidr_to_string string(cidr) string
timestamp_to_timestamp timestamp(timestamp) timestamp
int64_to_timestamp timestamp(int) timestamp
string_to_timestamp timestamp(string) timestamp
uint64_to_uint64 uint(uint) uint
double_to_uint64 uint(double) uint
int64_to_uint64 uint(int) uint
string_to_uint64 uint(string) uint
optional_of optional.of(V) optional(V)
optional_ofNonZeroValue optional.ofNonZeroValue(V) optional(V)
optional_none optional.none() optional(V)
optional_value optional(V)~value() V
optional_hasValue optional(V)~hasValue() bool
optional_or_optional optional(V)~or(optional(V)) optional(V)
optional_orValue_value optional(V)~orValue(V) V
string_char_at_int string~charAt(int) string
string_format string~format(list(dyn)) string
string_index_of_string string~indexOf(string) int
string_index_of_string_int string~indexOf(string,int) int
string_last_index_of_string string~lastIndexOf(string) int
string_last_index_of_string_int string~lastIndexOf(string,int) int
string_lower_ascii string~lowerAscii() string
string_upper_ascii string~upperAscii() string
string_replace_string_string string~replace(string,string) string
string_replace_string_string_int string~replace(string,string,int) string
string_split_string string~split(string) list(string)
string_split_string_int string~split(string,int) list(string)
string_substring_int string~substring(int) string
string_substring_int_int string~substring(int,int) string
string_trim string~trim() string
list_join list(string)~join() string
list_join_string list(string)~join(string) string
strings_quote strings.quote(string) string
list_sets_contains_list sets.contains(list(A),list(A)) bool
list_sets_equivalent_list sets.equivalent(list(A),list(A)) bool
list_sets_intersects_list sets.intersects(list(A),list(A)) bool
list_a_index_of_int list(A)~indexOf(A) int
list_a_last_index_of_int list(A)~lastIndexOf(A) int
list_slice list(A)~slice(int,int) list(A)
list_flatten list(list(A))~flatten() list(A)
list_flatten_int list(dyn)~flatten(int) list(dyn)
lists_range lists.range(int) list(int)
list_distinct list(A)~distinct() list(A)
list_reverse list(A)~reverse() list(A)
list_first list(A)~first() optional(A)
list_last list(A)~last() optional(A)
map_insert cel.@mapInsert(map(K,V),K,V) map(K,V)
map_insert_map cel.@mapInsert(map(K,V),map(K,V)) map(K,V)
string_to_url url(string) url
is_url_string isURL(string) bool
url_get_scheme url~getScheme() string
url_get_host url~getHost() string
url_get_hostname url~getHostname() string
url_get_port url~getPort() string
url_get_escaped_path url~getEscapedPath() string
url_get_query url~getQuery() map(string,list(string))
string_find_string string~find(string) string
string_find_all_string string~findAll(string) list(string)
string_find_all_string_int string~findAll(string,int) list(string)
authorizer_group authorizer~group(string) group
groupcheck_resource group~resource(string) resource
resourcecheck_subresource resource~subresource(string) resource
resourcecheck_namespace resource~namespace(string) resource
resourcecheck_name resource~name(string) resource
resourcecheck_check resource~check(string) decision
decision_errored decision~errored() bool
decision_error decision~error() string
decision_allowed decision~allowed() bool
decision_reason decision~reason() string
string_to_quantity quantity(string) quantity
is_quantity_string isQuantity(string) bool
quantity_sign quantity~sign() int
quantity_is_greater_than quantity~isGreaterThan(quantity) bool
quantity_is_less_than quantity~isLessThan(quantity) bool
quantity_compare_to quantity~compareTo(quantity) int
quantity_get_float quantity~asApproximateFloat() double
quantity_get_int quantity~asInteger() int
quantity_is_integer quantity~isInteger() bool
quantity_add quantity~add(quantity) quantity
quantity_add_int quantity~add(int) quantity
quantity_sub quantity~sub(quantity) quantity
quantity_sub_int quantity~sub(int) quantity
string_to_ip ip(string) ip
cidr_ip cidr~ip() ip
ip_family ip~family() int
is_canonical_ip ip.isCanonical(string) bool
ip_is_unspecified ip~isUnspecified() bool
ip_is_loopback ip~isLoopback() bool
ip_is_link_local_multicast ip~isLinkLocalMulticast() bool
ip_is_link_local_unicast ip~isLinkLocalUnicast() bool
ip_is_global_unicast ip~isGlobalUnicast() bool
is_ip isIP(string) bool
string_to_cidr cidr(string) cidr
cidr_contains_ip_string cidr~containsIP(string) bool
cidr_contains_ip_ip cidr~containsIP(ip) bool
cidr_contains_cidr_string cidr~containsCIDR(string) bool
cidr_contains_cidr cidr~containsCIDR(cidr) bool
cidr_prefix_length cidr~prefixLength() int
cidr_masked cidr~masked() cidr
is_cidr isCIDR(string) bool
format-named format.named(string) optional(format)
format-validate format~validate(string) optional(list(string))
string_to_semver semver(string) semver
string_bool_to_semver semver(string,bool) semver
is_semver_string isSemver(string) bool
is_semver_string_bool isSemver(string,bool) bool
semver_major semver~major() int
semver_minor semver~minor() int
semver_patch semver~patch() int
semver_is_greater_than semver~isGreaterThan(semver) bool
semver_is_less_than semver~isLessThan(semver) bool
semver_compare_to semver~compareTo(semver) int
";
