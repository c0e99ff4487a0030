//! Which request comes next.

use crate::OperationKind;
use esker_base::Rng;

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    AddLink,
    DeleteLink,
    UpdateLink,
    CountLinks,
    GetLinks,
    GetLinkList,
    GetNode,
    AddNode,
    UpdateNode,
    DeleteNode,
}

/// Every request with its percentage: `config/FBWorkload.properties`, the same as Table 5 of the paper
/// rounds to tenths.
const MIX: [(Request, f64); 10] = [
    (Request::AddLink, 8.988_660_1),
    (Request::DeleteLink, 2.990_766_4),
    (Request::UpdateLink, 8.012_212_5),
    (Request::CountLinks, 4.886_356_7),
    (Request::GetLinks, 0.526_114_2),
    (Request::GetLinkList, 50.711_914_5),
    (Request::GetNode, 12.932_668_3),
    (Request::AddNode, 2.573_278_9),
    (Request::UpdateNode, 7.366_437),
    (Request::DeleteNode, 1.011_591_4),
];

impl Request {
    pub(super) fn next(rng: &mut Rng) -> Request {
        let mut drawn = rng.unit() * 100.0;
        for (request, percent) in MIX {
            if drawn < percent {
                return request;
            }
            drawn -= percent;
        }
        // Rounding alone leads here.
        Request::GetLinkList
    }

    pub(super) fn kind(self) -> OperationKind {
        OperationKind::Named(match self {
            Request::AddLink => "add_link",
            Request::DeleteLink => "delete_link",
            Request::UpdateLink => "update_link",
            Request::CountLinks => "count_links",
            Request::GetLinks => "get_links",
            Request::GetLinkList => "get_link_list",
            Request::GetNode => "get_node",
            Request::AddNode => "add_node",
            Request::UpdateNode => "update_node",
            Request::DeleteNode => "delete_node",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_in_the_published_mix() {
        assert!((MIX.iter().map(|(_, percent)| percent).sum::<f64>() - 100.0).abs() < 1e-3);
        let mut rng = Rng::new(3);
        let drawn: Vec<_> = (0..400_000).map(|_| Request::next(&mut rng)).collect();
        for (request, percent) in MIX {
            let share = drawn.iter().filter(|&&other| other == request).count() as f64 / 4_000.0;
            assert!((share - percent).abs() < 0.3, "{request:?}: {share}%; {percent}% expected");
        }
    }
}
