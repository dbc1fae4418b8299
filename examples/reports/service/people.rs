//! Who is there. A cookie says who is signed in, and anybody may choose: a real application has its login here.

use actix_web::HttpRequest;
use actix_web::http::header::COOKIE;
use perilune::outcome::Caller;
use perilune::outcome::status::Unauthenticated;
use serde::Serialize;

/// A person, and the team (the tenant) that they work for.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Person {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) team: &'static str,
}

/// Everybody.
pub(crate) const PEOPLE: [Person; 3] = [
    Person { id: "ada", name: "Ada", team: "north" },
    Person { id: "ben", name: "Ben", team: "north" },
    Person { id: "cleo", name: "Cleo", team: "south" },
];

/// The person of that id.
pub(crate) fn named(id: &str) -> Option<&'static Person> {
    PEOPLE.iter().find(|person| person.id == id)
}

/// Who is signed in.
pub(crate) fn signed_in(request: &HttpRequest) -> Option<&'static Person> {
    let cookies = request.headers().get_all(COOKIE).filter_map(|header| header.to_str().ok());
    cookies.flat_map(|header| header.split(';')).find_map(|cookie| named(cookie.trim().strip_prefix("person=")?))
}

/// The caller of the status resource.
pub(crate) fn caller(request: &HttpRequest) -> Result<Caller, Unauthenticated> {
    signed_in(request).map(Caller::from).ok_or(Unauthenticated)
}

/// The cookie that signs a person in, or out. Other sites' pages can't send it, scripts can't read it.
pub(crate) fn cookie(person: Option<&Person>) -> String {
    let kept = "Path=/; HttpOnly; SameSite=Strict";
    match person {
        Some(person) => format!("person={}; {kept}", person.id),
        None => format!("person=; Max-Age=0; {kept}"),
    }
}
