//! What a query is made of, as far as it is counted: each part that a rule of the optimiser is about.
//!
//! A mark is a piece of the text that writes nothing ([`super::sql`]), so it goes where the text goes, and is gone where a part
//! was made and not used. What no query has, or no compared one, is found out by a test, and by a bar of the experiment.

use serde::{Deserialize, Serialize};

macro_rules! constructs {
    ($($construct:ident $name:literal)*) => {
        /// One construct.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Construct {
            $(#[doc = $name] $construct,)*
        }

        impl Construct {
            /// All of them.
            pub const ALL: &[Construct] = &[$(Construct::$construct),*];

            /// The name in results.
            pub fn name(self) -> &'static str {
                match self {
                    $(Construct::$construct => $name,)*
                }
            }
        }
    };
}

constructs! {
    Groups "groups"
    GroupByFunctionOfKey "GROUP BY a function of a key column, beside others"
    GroupByKeyAlone "GROUP BY the key alone, with a column that follows from it"
    GroupOfGroups "GROUP BY of groups"
    GroupByDrawn "GROUP BY what random() does not change"
    SetsOfComputed "grouping sets of computed groups"
    SetsBesideColumns "grouping sets beside a column"
    Grouping "grouping()"
    OrderedAggregate "an aggregate of ordered rows"
    ListItem "an item of array_agg"
    Unnest "unnest"
    UnnestSeveral "unnest of two lists"
    UnnestMissingList "unnest of a list that may be NULL"
    UnnestRange "unnest of a range"
    UnnestAggregate "unnest of array_agg"
    FilterAboveUnnest "a filter above unnest"
    GroupAboveUnnest "groups above unnest"
    LateralAggregate "LATERAL with an aggregate"
    LateralRows "LATERAL with rows"
    LateralOfAny "LATERAL with groups, LIMIT, a window or a set operation"
    DistinctOn "DISTINCT ON"
    DistinctOnFunction "DISTINCT ON a function of a column"
    Window "a window function"
    WindowOfGroups "a window function of aggregates"
    WindowAboveLimit "a window above LIMIT"
    WindowAboveGroups "a window above groups"
    WindowAboveUnnest "a window above unnest"
    Offset "lag, lead"
    OffsetWithDefault "lag, lead with a default"
    ValueOfFrame "first_value, last_value"
    NthValue "nth_value"
    Ntile "ntile"
    DoubleRank "percent_rank, cume_dist"
    IgnoreNulls "IGNORE NULLS"
    RangeFrame "a frame of RANGE"
    GroupsFrame "a frame of GROUPS"
    WindowFilter "a window function with FILTER"
    Qualify "QUALIFY"
    FilterAboveWindow "a filter above a window"
    FilterAboveLimit "a filter above LIMIT"
    Limit "LIMIT of rows in a total order"
    LimitOfRenamed "LIMIT by columns that change their names"
    LimitAboveLimit "LIMIT above LIMIT"
    LimitAboveWindow "LIMIT above a window"
    LimitAboveGroups "LIMIT above groups"
    OrderOfExpression "ORDER BY an expression, before the key"
    Skipped "OFFSET"
    ScalarAggregate "a subquery of one aggregate"
    ScalarCompared "a subquery of one aggregate by < or BETWEEN"
    ScalarByKey "a subquery of one row by its key"
    ScalarFirst "a subquery of the first row"
    ComputedBesideOuter "a computed value compared with the row outside"
    AggregateBesideOuter "an aggregate of values inside and outside"
    GroupsBesideOuter "groups of rows that the row outside chooses"
    HavingBesideOuter "HAVING on rows that the row outside chooses"
    DistinctBesideOuter "DISTINCT of rows that the row outside chooses"
    LimitBesideOuter "LIMIT of rows that the row outside chooses"
    SetsBesideOuter "a set operation on rows that the row outside chooses"
    WindowBesideOuter "a window of rows that the row outside chooses"
    TwoLevelsOut "a subquery that refers to the row two levels outside"
    LeftJoin "LEFT JOIN"
    RightJoin "RIGHT JOIN"
    FullJoin "FULL JOIN"
    Using "JOIN USING"
    UsingOfTypes "JOIN USING columns of two types"
    SemiJoinOfNulls "a semi join by columns with NULLs"
    AntiJoinOfNulls "an anti join by columns with NULLs"
    DrawnCondition "a condition with random()"
    DrawnBelowGroups "random() below groups"
    DrawnBelowWindow "random() below a window"
    DrawnAboveJoin "random() above a join"
    DrawnAboveWindow "random() above a window"
    DrawnInJoin "random() in ON"
    DrawnInHaving "random() in HAVING"
    DateAndHours "a DATE and hours"
    DateAndDays "a DATE and a number of days"
    TimestampAndInterval "a TIMESTAMP and an interval"
    Months "an interval with months"
    DaysBetween "the days between two DATEs"
    DateBesideTimestamp "a DATE beside a TIMESTAMP"
    DateTrunc "date_trunc"
    Extract "extract"
}
