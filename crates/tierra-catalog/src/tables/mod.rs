//! The rows of each table of the catalog.
//!
//! `data/declared.txt` says which tables there are, with their columns. What Tierra has not has no rows: sequences, triggers, policies.
//! A table about something that happens here but is not counted is refused, for a row too few would be a wrong answer.

mod database;
mod information;
mod relation;
mod rows;
mod types;

use crate::contents::{Declared, Objects};
use crate::error::{Error, Result};
use crate::value::Part;

use self::rows::Rows;

/// What makes the rows of a table.
type Make = fn(&Objects<'_>, &mut Rows<'_>);

/// The tables that have rows. No two schemas have one of the same name.
const TABLES: &[(&str, Make)] = &[
    ("pg_am", database::pg_am),
    ("pg_attribute", relation::pg_attribute),
    ("pg_authid", database::pg_authid),
    ("pg_class", relation::pg_class),
    ("pg_collation", types::pg_collation),
    ("pg_constraint", relation::pg_constraint),
    ("pg_database", database::pg_database),
    ("pg_index", relation::pg_index),
    ("pg_indexes", relation::pg_indexes),
    ("pg_language", database::pg_language),
    ("pg_namespace", database::pg_namespace),
    ("pg_opclass", types::pg_opclass),
    ("pg_proc", types::pg_proc),
    ("pg_roles", database::pg_roles),
    ("pg_settings", database::pg_settings),
    ("pg_shadow", database::pg_user),
    ("pg_stat_activity", database::pg_stat_activity),
    ("pg_stat_all_tables", relation::pg_stat_all_tables),
    ("pg_stat_user_tables", relation::pg_stat_user_tables),
    ("pg_tables", relation::pg_tables),
    ("pg_tablespace", database::pg_tablespace),
    ("pg_type", types::pg_type),
    ("pg_user", database::pg_user),
    ("pg_views", relation::pg_views),
    ("check_constraints", information::check_constraints),
    ("character_sets", information::character_sets),
    ("columns", information::columns),
    (
        "constraint_column_usage",
        information::constraint_column_usage,
    ),
    ("enabled_roles", information::enabled_roles),
    ("information_schema_catalog_name", information::catalog_name),
    ("key_column_usage", information::key_column_usage),
    ("schemata", information::schemata),
    ("table_constraints", information::table_constraints),
    ("tables", information::tables),
    ("views", information::views),
    ("pg_stat_gssapi", database::pg_stat_gssapi),
    ("table_privileges", information::table_privileges),
    ("role_table_grants", information::table_privileges),
    ("column_privileges", information::column_privileges),
    ("role_column_grants", information::column_privileges),
];

/// What is empty because Tierra has no such thing. Of functions and operators only those are there that read and write types.
const EMPTY: &str = " pg_attrdef pg_auth_members pg_available_extensions pg_available_extension_versions pg_constraint \
    pg_db_role_setting pg_default_acl pg_depend pg_description pg_enum pg_event_trigger pg_extension pg_foreign_data_wrapper \
    pg_foreign_server pg_foreign_table pg_group pg_inherits pg_init_privs pg_largeobject pg_largeobject_metadata pg_matviews \
    pg_parameter_acl pg_partitioned_table pg_policies pg_policy pg_prepared_xacts pg_publication pg_publication_namespace \
    pg_publication_rel pg_publication_tables pg_range pg_replication_origin pg_replication_origin_status pg_replication_slots \
    pg_rewrite pg_rules pg_seclabel pg_seclabels pg_sequence pg_sequences pg_shdepend pg_shdescription pg_shseclabel \
    pg_stat_progress_analyze pg_stat_progress_basebackup pg_stat_progress_cluster pg_stat_progress_copy \
    pg_stat_progress_create_index pg_stat_progress_vacuum pg_stat_replication pg_stat_replication_slots pg_stat_subscription \
    pg_stat_subscription_stats pg_stat_user_functions pg_stat_wal_receiver pg_statistic pg_statistic_ext pg_statistic_ext_data pg_stats pg_stats_ext pg_stats_ext_exprs \
    pg_subscription pg_subscription_rel pg_transform pg_trigger pg_aggregate pg_amop pg_amproc pg_cast pg_conversion pg_operator pg_opfamily pg_ts_config pg_ts_dict pg_ts_parser pg_ts_template pg_user_mapping pg_user_mappings pg_ts_config_map \
    check_constraint_routine_usage column_column_usage column_domain_usage column_options \
    column_udt_usage constraint_table_usage domain_constraints domain_udt_usage domains element_types \
    foreign_data_wrapper_options foreign_data_wrappers foreign_server_options foreign_servers foreign_table_options \
    foreign_tables parameters referential_constraints \
    routine_column_usage routine_routine_usage routine_sequence_usage routine_table_usage \
    routines sequences transforms triggered_update_columns triggers user_defined_types \
    user_mapping_options user_mappings view_column_usage view_routine_usage view_table_usage attributes \
    administrable_role_authorizations applicable_roles ";

/// The rows of a table. Behind its columns they have its number: `tableoid`.
pub(crate) fn rows(table: &'static Declared, objects: &Objects<'_>) -> Vec<Part> {
    let mut rows = Rows::of(table);
    let mut all = TABLES.iter();
    if let Some((_, make)) = all.find(|(name, _)| *name == table.name) {
        make(objects, &mut rows);
    }
    rows.finish()
}

/// Fails if the rows of the table are not known.
pub(crate) fn check(table: &Declared) -> Result<()> {
    let mut all = TABLES.iter();
    let is_made = all.any(|(name, _)| *name == table.name);
    match is_made || EMPTY.contains(&format!(" {} ", table.name)) {
        true => Ok(()),
        false => Err(Error::new(
            "0A000",
            format!(
                "the table \"{}\" of PostgreSQL's system catalog is not kept here",
                table.name
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::{Column, Contents, DECLARED, Table};
    use crate::types::Type;

    #[test]
    fn each_table_has_rows_of_its_columns() {
        let column = |name: &str| Column {
            name: name.into(),
            ty: Type::INT8,
            modifier: -1,
            is_nullable: false,
        };
        let contents = Contents {
            tables: vec![Table {
                name: "t".into(),
                columns: vec![column("a")],
                primary_key: vec![0],
                rows: 3,
            }],
            settings: vec![("a".into(), "b".into())],
            ..Contents::default()
        };
        let objects = Objects::of(&contents);
        for (name, _) in TABLES {
            let mut named = DECLARED.iter().filter(|table| table.name == *name);
            let table = named.next().expect(name);
            assert!(named.next().is_none(), "{name}");
            let rows = rows(table, &objects);
            assert!(!rows.is_empty(), "{name}");
            assert!(
                rows.iter().all(|row| row.len() == table.columns.len() + 1),
                "{name}"
            );
        }
        let refused = DECLARED.iter().filter(|table| check(table).is_err());
        let refused: Vec<_> = refused.map(|table| table.name).collect();
        assert!(
            refused.contains(&"pg_stat_database") && !refused.contains(&"pg_sequence"),
            "{refused:?}"
        );
        for name in EMPTY.split_whitespace() {
            assert!(DECLARED.iter().any(|table| table.name == name), "{name}");
        }
    }
}
