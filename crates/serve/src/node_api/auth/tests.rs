//! Authentication and authorization against an API server in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use hostlet_net::tls::fake::FakeAuthority;
use hostlet_net::tls::{ClientAuthorities, PrivateKey, certificate_request};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::sync::watch;

use super::testing::{FakeReviews, user};
use super::{
    AuthenticationError, Authenticator, AuthenticatorSettings, AuthorizationError, Authorizer, ReviewError,
    Reviews, StreamingVerbs, User, attributes,
};

const TTL: Duration = Duration::from_secs(120);
const DENIED: Duration = Duration::from_secs(30);

fn bearer(value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))])
}

/// A certificate of an authority for this organization and name.
fn certificate(authority: &FakeAuthority, start: Timestamp) -> CertificateDer<'static> {
    let key = PrivateKey::generate().unwrap();
    let request = certificate_request(&key, "system:masters", "admin").unwrap();
    let pem = authority.issue(&request, start, Duration::from_secs(3600)).unwrap();
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn settings(authority: &FakeAuthority, reviews: &Arc<FakeReviews>) -> AuthenticatorSettings {
    let authorities = ClientAuthorities::from_pem(authority.certificate().unwrap().as_bytes()).unwrap();
    let asked: Arc<dyn Reviews> = reviews.clone();
    AuthenticatorSettings {
        authorities: watch::channel(Some(Arc::new(authorities))).1,
        tokens: Some((asked, TTL)),
        is_anonymous_permitted: false,
    }
}

fn authenticator(authority: &FakeAuthority, reviews: &Arc<FakeReviews>) -> Authenticator {
    Authenticator::new(settings(authority, reviews))
}

/// Also accepts requests without credentials.
fn open_authenticator(authority: &FakeAuthority, reviews: &Arc<FakeReviews>) -> Authenticator {
    Authenticator::new(AuthenticatorSettings { is_anonymous_permitted: true, ..settings(authority, reviews) })
}

#[tokio::test]
async fn a_certificate_of_the_authority_names_its_user() {
    let (authority, reviews) = (FakeAuthority::new(), Arc::default());
    let authenticator = authenticator(&authority, &reviews);
    let now = Timestamp::now();
    let user = authenticator.user("", &[certificate(&authority, now)], &HeaderMap::new()).await.unwrap();
    assert_eq!(
        (user.name.as_str(), &user.groups[..]),
        ("admin", &["system:masters".to_owned(), "system:authenticated".to_owned()][..])
    );
    let [id] = &user.extra["authentication.kubernetes.io/credential-id"][..] else { panic!("{user:?}") };
    assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");

    let long_ago = now - Duration::from_secs(7_200);
    for other in [certificate(&FakeAuthority::new(), now), certificate(&authority, long_ago)] {
        let refused =
            authenticator.user("", std::slice::from_ref(&other), &HeaderMap::new()).await.unwrap_err();
        assert!(matches!(refused, AuthenticationError::Certificate(_)), "{refused}");
        // A token is accepted nevertheless, as upstream.
        assert_eq!(authenticator.user("", &[other], &bearer("Bearer good")).await.unwrap().name, "robot");
    }
}

/// A certificate of the authority for a subject with these attributes.
fn certificate_to(
    authority: &FakeAuthority,
    subject: &[(&'static str, &'static str)],
) -> CertificateDer<'static> {
    let request = certificate_request(&PrivateKey::generate().unwrap(), "a", "b").unwrap();
    let pem = authority.issue_to(subject, &request, Timestamp::now(), Duration::from_secs(3600)).unwrap();
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";
const USER_ID: &str = "1.3.6.1.4.1.57683.2";

#[tokio::test]
async fn a_certificate_without_a_common_name_is_of_nobody() {
    let (authority, reviews) = (FakeAuthority::new(), Arc::default());
    let strict = authenticator(&authority, &reviews);
    let open = open_authenticator(&authority, &reviews);
    for subject in
        [&[(ORGANIZATION, "system:masters")][..], &[(ORGANIZATION, "system:masters"), (COMMON_NAME, "")]]
    {
        let own = [certificate_to(&authority, subject)];
        let refused = strict.user("", &own, &HeaderMap::new()).await.unwrap_err();
        assert!(matches!(refused, AuthenticationError::None), "{refused}");
        assert_eq!(open.user("", &own, &HeaderMap::new()).await.unwrap().name, "system:anonymous");
        assert_eq!(strict.user("", &own, &bearer("Bearer good")).await.unwrap().name, "robot");
    }
}

#[tokio::test]
async fn a_certificate_may_have_the_uid_of_its_user() {
    let (authority, reviews) = (FakeAuthority::new(), Arc::default());
    let authenticator = authenticator(&authority, &reviews);
    let user = async |subject: &[(&'static str, &'static str)]| {
        authenticator.user("", &[certificate_to(&authority, subject)], &HeaderMap::new()).await
    };
    let ann = user(&[(COMMON_NAME, "ann"), (USER_ID, "uid-7")]).await.unwrap();
    assert_eq!((ann.name.as_str(), ann.uid.as_str()), ("ann", "uid-7"));
    assert_eq!(user(&[(COMMON_NAME, "ann")]).await.unwrap().uid, "");
    for wrong in [&[(USER_ID, "")][..], &[(USER_ID, "1"), (USER_ID, "2")]] {
        let refused = user(&[wrong, &[(COMMON_NAME, "ann")]].concat()).await.unwrap_err();
        assert!(matches!(refused, AuthenticationError::Certificate(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_browsers_token_is_a_subprotocol_of_its_websocket() {
    let (authority, reviews) = (FakeAuthority::new(), Arc::default());
    let authenticator = authenticator(&authority, &reviews);
    let ask = async |protocol: &str| {
        let all = [("upgrade", "websocket"), ("connection", "Upgrade"), ("sec-websocket-protocol", protocol)];
        let headers: HeaderMap = all
            .into_iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        authenticator.user("", &[], &headers).await
    };
    // `good` and `bad`.
    let of = |token: &str| format!("v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.{token}");
    assert_eq!(ask(&of("Z29vZA")).await.unwrap().name, "robot");
    assert!(matches!(ask(&of("YmFk")).await, Err(AuthenticationError::Token)));
    assert!(matches!(ask(&of("!")).await, Err(AuthenticationError::Protocol(_))));
    assert!(matches!(ask("v5.channel.k8s.io").await, Err(AuthenticationError::None)));
}

/// An API server that takes its time over tokens that it does not know.
#[derive(Default)]
struct SlowReviews {
    asking: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl Reviews for SlowReviews {
    async fn user_of(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.most.fetch_max(self.asking.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if token != "good" {
            tokio::time::sleep(TTL).await;
        }
        self.asking.fetch_sub(1, Ordering::SeqCst);
        Ok((token == "good").then(|| user("robot")))
    }

    async fn may(&self, _: &User, _: &str, _: &str, _: &str) -> Result<bool, ReviewError> {
        Ok(false)
    }
}

#[tokio::test(start_paused = true)]
async fn who_makes_up_tokens_is_asked_about_a_few_at_a_time() {
    let reviews = Arc::new(SlowReviews::default());
    let asked: Arc<dyn Reviews> = reviews.clone();
    let authenticator = Authenticator::new(AuthenticatorSettings {
        authorities: watch::channel(None).1,
        tokens: Some((asked, TTL)),
        is_anonymous_permitted: false,
    });
    let made_up = (0..100).map(|number| {
        let value = HeaderValue::from_str(&format!("Bearer {number}")).unwrap();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        let authenticator = &authenticator;
        async move { authenticator.user("10.0.0.66", &[], &headers).await }
    });
    let friend = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let headers = bearer("Bearer good");
        let friend = authenticator.user("10.0.0.1", &[], &headers);
        tokio::time::timeout(Duration::from_secs(1), friend).await.unwrap().unwrap()
    };
    let (refused, friend) = tokio::join!(join_all(made_up), friend);
    assert_eq!(friend.name, "robot");
    assert!(refused.iter().all(|result| matches!(result, Err(AuthenticationError::Token))), "{refused:?}");
    assert!(reviews.most.load(Ordering::SeqCst) <= 5, "{:?}", reviews.most);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_reviewed_once_for_each_time_to_live() {
    let (authority, reviews) = (FakeAuthority::new(), Arc::default());
    let authenticator = authenticator(&authority, &reviews);
    let ask = async |value: &'static str| authenticator.user("", &[], &bearer(value)).await;
    for value in ["Bearer good", "bearer good ", "Bearer good more"] {
        let user = ask(value).await.unwrap();
        assert_eq!(
            (user.name.as_str(), &user.groups[..]),
            ("robot", &["system:authenticated".to_owned()][..])
        );
    }
    assert_eq!(reviews.asked(), ["token good"]);
    tokio::time::advance(TTL).await;
    ask("Bearer good").await.unwrap();
    assert_eq!(reviews.asked(), ["token good"]);
    for _ in 0..2 {
        assert!(matches!(ask("Bearer bad").await, Err(AuthenticationError::Token)));
    }
    assert_eq!(reviews.asked(), ["token bad"]);
    for value in ["Basic good", "Bearer", "Bearer ", "Bearer  good", ""] {
        assert!(matches!(ask(value).await, Err(AuthenticationError::None)), "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_review_without_an_answer_is_repeated_and_not_kept() {
    let (authority, reviews) = (FakeAuthority::new(), Arc::<FakeReviews>::default());
    let authenticator = authenticator(&authority, &reviews);
    reviews.fail(4);
    assert_eq!(authenticator.user("", &[], &bearer("Bearer good")).await.unwrap().name, "robot");
    assert_eq!(reviews.asked().len(), 5);
    reviews.fail(5);
    let failed = authenticator.user("", &[], &bearer("Bearer other")).await.unwrap_err();
    assert!(matches!(failed, AuthenticationError::Review(_)), "{failed}");
    assert!(matches!(
        authenticator.user("", &[], &bearer("Bearer other")).await,
        Err(AuthenticationError::Token)
    ));
}

#[tokio::test]
async fn nobody_is_anonymous_unless_that_is_permitted() {
    let (authority, reviews) = (FakeAuthority::new(), Arc::default());
    let strict = authenticator(&authority, &reviews);
    assert!(matches!(strict.user("", &[], &HeaderMap::new()).await, Err(AuthenticationError::None)));
    let open = open_authenticator(&authority, &reviews);
    let user = open.user("", &[], &HeaderMap::new()).await.unwrap();
    assert_eq!(
        (user.name.as_str(), &user.groups[..]),
        ("system:anonymous", &["system:unauthenticated".to_owned()][..])
    );
    assert!(matches!(open.user("", &[], &bearer("Bearer bad")).await, Err(AuthenticationError::Token)));
}

#[tokio::test(start_paused = true)]
async fn any_of_the_subresources_is_enough_and_decisions_are_kept() {
    let reviews = Arc::<FakeReviews>::default();
    reviews.permit(&["robot get host1/proxy"]);
    let authorizer = Authorizer::webhook(reviews.clone(), "host1".to_owned(), TTL, DENIED);
    let check = async |method, path| {
        authorizer.check(&user("robot"), &attributes(&method, path, StreamingVerbs::Create)).await
    };
    check(Method::GET, "/pods").await.unwrap();
    assert_eq!(reviews.asked(), ["robot get host1/pods", "robot get host1/proxy"]);
    check(Method::GET, "/containerLogs/a/b/c").await.unwrap();
    assert_eq!(reviews.asked(), [""; 0]);
    tokio::time::advance(DENIED).await;
    check(Method::GET, "/pods").await.unwrap();
    assert_eq!(reviews.asked(), ["robot get host1/pods"], "a refusal is kept for a shorter time");

    let refused = check(Method::GET, "/exec/a/b/c").await.unwrap_err();
    let text = "Forbidden (user=robot, verb=create, resource=nodes, subresource(s)=[proxy])\n";
    assert_eq!(refused.to_string(), text);
    let refused = check(Method::POST, "/pods").await.unwrap_err();
    assert!(refused.to_string().contains("subresource(s)=[pods proxy])"), "{refused}");

    reviews.fail(5);
    let failed = check(Method::GET, "/stats/summary").await.unwrap_err();
    assert!(matches!(failed, AuthorizationError::Review { subresource: "stats", .. }), "{failed}");
    Authorizer::AlwaysAllow
        .check(&user("robot"), &attributes(&Method::GET, "/", StreamingVerbs::Create))
        .await
        .unwrap();
}
