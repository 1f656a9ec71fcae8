//! Invalid requests to `/v1/trace`.

mod common;

use common::{CONFIG, Served};
use daemon::SUBSCRIBERS_MAX;
use hyper::Method;
use hyper::body::Bytes;

#[test]
fn invalid_parameters_are_refused_with_the_accepted_values() {
    let served = Served::start(CONFIG);
    for (query, status, words) in [
        ("every=0", 422, "a number from 1 to 1000000"),
        ("every=-1", 422, "every"),
        ("at_least=5", 422, "a time such as 5ms"),
        ("volume=none", 404, "none"),
        ("speed=1", 422, "speed"),
        ("%ff", 422, "nothing"),
    ] {
        let path = format!("/v1/trace?{query}");
        let answer = served.client.ask(Method::GET, &path, Bytes::new()).expect("an answer");
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        assert!(answer.body.to_string().contains(words), "{query}: {answer:?}");
    }
    let all: Vec<_> = (0..SUBSCRIBERS_MAX)
        .filter_map(|_| served.operator.subscribe(daemon::Filter::ALL))
        .collect();
    assert_eq!(all.len(), SUBSCRIBERS_MAX);
    let answer = served.client.ask(Method::GET, "/v1/trace", Bytes::new()).expect("an answer");
    assert_eq!(answer.status, 409, "{answer:?}");
    drop(all);
    served.stop();
}
