-- SQL in all its parts, over the catalog.
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY relname COLLATE "C" DESC LIMIT 2 OFFSET 1
;
SELECT count(*), count(relacl), min(relname), max(relname::text), sum(relnatts), bool_and(relhasindex), bool_or(relhasindex) FROM pg_class WHERE relnamespace = 2200
;
SELECT relkind, count(*) AS n, array_agg(relname ORDER BY relname DESC), string_agg(relname, ', ' ORDER BY relname) FROM pg_class WHERE relnamespace = 2200 GROUP BY relkind HAVING count(*) > 1 ORDER BY n
;
SELECT count(*) FILTER (WHERE attnotnull), count(DISTINCT atttypid) FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE c.relnamespace = 2200 AND attnum > 0
;
SELECT c.relname, a.attname FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = 2 WHERE c.relnamespace = 2200 ORDER BY 1, 2
;
SELECT c.relname, i.indexrelid::regclass FROM pg_index i RIGHT JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 2200 AND c.relkind = 'r' ORDER BY 1
;
SELECT a.x, b.y FROM (VALUES (1), (2), (NULL)) AS a(x) FULL JOIN (VALUES (2), (3), (NULL)) AS b(y) ON a.x = b.y JOIN pg_am ON amname IN ('heap', 'tierra') AND amtype = 't' ORDER BY 1, 2
;
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS l(k, v) JOIN (VALUES (2, 'c'), (3, 'd')) AS r(k, w) USING (k) WHERE 'pg_class'::regclass IS NOT NULL
;
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS l(k, v) NATURAL FULL JOIN (VALUES (2, 'c'), (3, 'd')) AS r(k, w) WHERE version() IS NOT NULL ORDER BY k
;
SELECT k, l.k, r.k FROM (VALUES (1, 'a'), (2, 'b')) AS l(k, v) RIGHT JOIN (VALUES (2, 'c'), (3, 'd')) AS r(k, w) USING (k) WHERE version() IS NOT NULL ORDER BY k
;
SELECT c.relname, k.n, k.x FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(x, n) WHERE c.relnamespace = 2200 ORDER BY 1, 2
;
SELECT c.relname, (information_schema._pg_expandarray(i.indkey)).x, (information_schema._pg_expandarray(i.indkey)).n FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = 2200 ORDER BY 1, 3
;
SELECT generate_series(1, 3), generate_series(1, 2), 'pg_class'::regclass
;
SELECT i.indrelid::regclass, generate_subscripts(i.indkey, 1) AS s, i.indkey[generate_subscripts(i.indkey, 1)] FROM pg_index i, pg_class c WHERE c.oid = i.indrelid AND c.relnamespace = 2200 ORDER BY 1::text, 2
;
SELECT relname, (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) FROM pg_class c WHERE relnamespace = 2200 ORDER BY 1
;
SELECT relname FROM pg_class c WHERE relnamespace = 2200 AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid) ORDER BY 1
;
SELECT relname FROM pg_class c WHERE relnamespace = 2200 AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid) ORDER BY 1
;
SELECT relname FROM pg_class WHERE oid IN (SELECT indrelid FROM pg_index) AND relnamespace = 2200 ORDER BY 1
;
SELECT relname FROM pg_class WHERE relnamespace = 2200 AND oid NOT IN (SELECT indexrelid FROM pg_index) ORDER BY 1
;
SELECT relname FROM pg_class WHERE (relname, relkind) IN (SELECT tablename, 'r' FROM pg_tables WHERE schemaname = 'public') ORDER BY 1
;
SELECT relname, ARRAY(SELECT attname FROM pg_attribute a WHERE a.attrelid = c.oid AND attnum > 0 ORDER BY attnum) FROM pg_class c WHERE relnamespace = 2200 AND relkind = 'r' ORDER BY 1
;
WITH t AS (SELECT oid, relname FROM pg_class WHERE relnamespace = 2200), u(a, b) AS (SELECT * FROM t WHERE relname LIKE '%e%') SELECT b FROM u ORDER BY b
;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i), 'pg_class'::regclass FROM n
;
SELECT relname, (WITH RECURSIVE n(i) AS (SELECT c.relnatts::int UNION ALL SELECT i - 1 FROM n WHERE i > 1) SELECT count(*) FROM n) FROM pg_class c WHERE relnamespace = 2200 ORDER BY 1
;
SELECT relname FROM pg_class WHERE relnamespace = 2200 UNION SELECT 'zz' ORDER BY relname DESC LIMIT 3
;
(SELECT relkind FROM pg_class WHERE relnamespace = 2200 UNION ALL SELECT 'q') EXCEPT SELECT 'i' ORDER BY 1
;
SELECT relkind FROM pg_class WHERE relnamespace = 2200 INTERSECT ALL SELECT unnest(ARRAY['r', 'r', 'x']::"char"[])
;
SELECT relkind FROM pg_class WHERE relnamespace = 2200 EXCEPT ALL SELECT 'r'::"char" ORDER BY 1
;
SELECT DISTINCT relkind FROM pg_class WHERE relnamespace = 2200 ORDER BY relkind DESC
;
SELECT DISTINCT ON (relkind) relkind, relname FROM pg_class WHERE relnamespace = 2200 ORDER BY relkind, relname DESC
;
SELECT relname, row_number() OVER (PARTITION BY relkind ORDER BY relname), rank() OVER (ORDER BY relkind), dense_rank() OVER (ORDER BY relkind DESC), count(*) OVER () FROM pg_class WHERE relnamespace = 2200 ORDER BY 1
;
SELECT CASE relkind WHEN 'r' THEN 'table' WHEN 'i' THEN 'index' END, CASE WHEN relhasindex THEN relname END FROM pg_class WHERE relnamespace = 2200 ORDER BY 1, 2
;
SELECT x IS NULL, x IS NOT NULL, x = 1, x <> 1, NOT x = 1, x = 1 OR true, x = 1 AND false, x IN (1, NULL), x NOT IN (1, NULL), x IS DISTINCT FROM 1, x IS NOT DISTINCT FROM NULL, coalesce(x, 9), nullif(x, 1) FROM (VALUES (1), (2), (NULL)) AS t(x), pg_database WHERE datname = 'tierra'
;
SELECT x FROM (VALUES (1), (NULL), (3)) AS t(x), pg_database WHERE datname = 'tierra' ORDER BY x DESC
;
SELECT x FROM (VALUES (1), (NULL), (3)) AS t(x), pg_database WHERE datname = 'tierra' ORDER BY x NULLS FIRST
;
SELECT x FROM (VALUES (1), (NULL), (3)) AS t(x), pg_database WHERE datname = 'tierra' ORDER BY x DESC NULLS LAST
;
SELECT 1 = ANY(ARRAY[1, 2]), 3 = ANY(ARRAY[1, 2]), 3 = ANY(ARRAY[1, NULL]), 1 <> ALL(ARRAY[2, 3]), 1 = ALL('{}'::int[]), 1 = ANY(NULL::int[]), 'r' = ANY('{r,v}'::text[]), pg_typeof(1)
;
SELECT relname FROM pg_class WHERE relname LIKE ANY (ARRAY['every%', 'key%']) AND relkind = 'r' ORDER BY 1
;
SELECT 'a_c' LIKE 'a\_c', 'abc' LIKE 'a\_c', 'abc' LIKE 'a_c', 'ABC' ILIKE 'a%', 'a%c' LIKE 'a!%c' ESCAPE '!', 'abc' NOT LIKE 'x%', 'abc' ~ '^a.c$', 'ABC' ~* 'abc', 'abc' !~ 'b', 'abc' OPERATOR(pg_catalog.~) '^(abc)$', pg_typeof('x')
;
SELECT 7 / 2, -7 / 2, 7 % 3, -7 % 3, 2 * 3 + 1, 7::float8 / 2, 1 - 2, 5 & 3, 5 | 3, 5 # 3, 1 << 3, 16 >> 2, pg_typeof(1::int2 + 1::int8)
;
SELECT pg_typeof(1), pg_typeof(1.5), pg_typeof('x'), pg_typeof(NULL), pg_typeof(true), pg_typeof(ARRAY[1]), pg_typeof('a'::name), pg_typeof(count(*)), pg_typeof(sum(1)), pg_typeof(1::int8 + 1), pg_typeof('x' || 'y'), pg_typeof(CASE WHEN true THEN 1 ELSE 2::int8 END) FROM pg_database
;
SELECT 'x' || 'y', 'x' || 1, 1 || 'x', 'x' || NULL, 'x' || true, ARRAY[1] || 2, ARRAY[1] || ARRAY[2, 3], 0 || ARRAY[1], current_schema() || '!'
;
SELECT 'pg_class'::regclass::oid, 1259::regclass, 'pg_catalog.pg_type'::regclass, 'int4'::regtype, 23::regtype, 'integer'::regtype::oid, 'text[]'::regtype, 'pg_catalog'::regnamespace::oid, 99999::regclass, 0::regclass, 'public'::regnamespace
;
SELECT to_regclass('pg_class'), to_regclass('nosuch'), to_regtype('int8'), to_regtype('nosuch'), to_regclass('public.everything'), to_regclass('"Mixed Case"')
;
SELECT '"Mixed Case"'::regclass, 'public."Mixed Case"'::regclass::text, 'EVERYTHING'::regclass, quote_ident('Mixed Case'), quote_ident('select'), quote_ident('ok_1'), quote_literal('it''s'), quote_nullable(NULL), format('%I.%I = %L %s %%', 'a', 'B c', 'd''e', 5)
;
SELECT format_type(1700, (9 << 16 | 2) + 4), format_type(1043, 14), format_type(1043, NULL), format_type(1042, 9), format_type(23, -1), format_type(1009, NULL), format_type(1114, NULL), format_type(1114, 3), format_type(99999, NULL), format_type(NULL, 1), format_type(18, NULL), format_type(19, -1)
;
SELECT pg_get_indexdef(indexrelid), pg_get_indexdef(indexrelid, 1, false), pg_get_indexdef(indexrelid, 2, true), pg_get_indexdef(indexrelid, 0, true) FROM pg_index i JOIN pg_class c ON c.oid = indrelid WHERE relnamespace = 2200 ORDER BY 1
;
SELECT conname, contype, pg_get_constraintdef(oid), conkey, conrelid::regclass, conindid::regclass FROM pg_constraint WHERE connamespace = 2200 ORDER BY 1
;
SELECT array_to_string(ARRAY[1, NULL, 3], ','), array_to_string(ARRAY['a', NULL], ',', '*'), string_to_array('a,b,,c', ','), string_to_array('', ','), string_to_array('a,b', ',', 'b'), array_length(ARRAY[1, 2], 1), array_upper(ARRAY[1, 2], 1), array_lower(ARRAY[1, 2], 1), cardinality(ARRAY[]::int[]), array_length(ARRAY[]::int[], 1), array_position(ARRAY['a', 'b'], 'b'), array_append(ARRAY[1], 2), array_cat(ARRAY[1], ARRAY[2]), array_remove(ARRAY[1, 2, 1], 1), current_schemas(false)
;
SELECT (ARRAY[1, 2, 3])[2], (ARRAY[1, 2, 3])[2:3], (ARRAY[1, 2, 3])[5], (ARRAY['a', 'b'])[1], ('{1,2}'::int[])[1], (current_schemas(true))[1]
;
SELECT ARRAY[1, 2] @> ARRAY[2], ARRAY[2] <@ ARRAY[1, 2], ARRAY[1, 2] && ARRAY[3], ARRAY['a'] && ARRAY['a', 'b'], ARRAY[1, 2] = ARRAY[1, 2], ARRAY[1, 2] < ARRAY[1, 3], pg_typeof(ARRAY['a'])
;
SELECT lower('AbC'), upper('AbC'), length('äb'), octet_length('äb'), substr('abcdef', 2, 3), substring('abcdef' from 3), substring('abcdef', 2, 2), substring('abc123' from '[0-9]+'), left('abc', 2), left('abc', -1), right('abc', 2), right('abc', -1), replace('abcabc', 'b', 'x'), position('c' in 'abc'), strpos('abc', 'z'), split_part('a.b.c', '.', 2), split_part('a.b.c', '.', -1), concat('a', NULL, 1, true), concat_ws('-', 'a', NULL, 'b'), repeat('ab', 3), reverse('abc'), trim(' a '), trim(both 'x' from 'xax'), ltrim('xa', 'x'), rtrim('  a  '), btrim('xyax', 'xy'), starts_with('abc', 'ab'), ascii('a'), chr(65), translate('abc', 'ab', 'x'), current_database()
;
SELECT regexp_replace('abcb', 'b', 'x'), regexp_replace('abcb', 'b', 'x', 'g'), regexp_replace('abc', '(b)(c)', '\2\1'), regexp_match('foobar', 'o(b)(a)'), regexp_match('foobar', 'x'), pg_typeof(1)
;
SELECT '12'::int, '12'::oid, 12::text, 'true'::bool, true::text, true::int, 0::bool, 'abc'::name, 'abc'::"char", 'abc'::varchar(2), '{a,"b c",NULL}'::text[], '1.5'::float8, '1e20'::float8, '0.00001'::float8, '-0'::float8, pg_typeof('1'::oid)
;
SELECT 1.5::int, 2.5::int, (-2.5)::int, 2.5::float8::int, 3.5::float8::int, 1.25, pg_typeof(1)
;
SELECT abs(-3), version() IS NOT NULL
;
SELECT substr('abc', 1.5), version()
;
SELECT greatest(1, 3, 2), least(1, NULL, 0), greatest('a', 'b'), pg_typeof(greatest(1, 2::int8))
;
SELECT relname, relname = 'everything', relname || '!', relname::text LIKE 'e%', length(relname), upper(relname) FROM pg_class WHERE relnamespace = 2200 ORDER BY relname
;
SELECT relkind, relkind = 'r', relkind IN ('r', 'v'), relkind::text FROM pg_class WHERE relnamespace = 2200 ORDER BY relname
;
SELECT sum(x), avg(x::float8), min(x), max(x), count(x), array_agg(x), string_agg(x::text, '') FROM (VALUES (1), (2), (NULL)) AS t(x), pg_database WHERE datname = 'nosuch'
;
SELECT sum(x), min(x), max(x), count(x), array_agg(x ORDER BY x DESC), string_agg(x::text, '+' ORDER BY x), array_agg(DISTINCT x) FROM (VALUES (1), (2), (NULL), (2)) AS t(x), pg_database WHERE datname = 'tierra'
;
SELECT relkind, relpersistence, count(*) FROM pg_class WHERE relnamespace = 2200 GROUP BY 1, relpersistence ORDER BY 3 DESC
;
SELECT c.oid::regclass, c.relname, count(a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 WHERE c.relnamespace = 2200 GROUP BY c.oid ORDER BY 2
;
SELECT upper(relname) AS u, count(*) FROM pg_class WHERE relnamespace = 2200 GROUP BY u ORDER BY u
;
SELECT x.relname, y.relname FROM pg_class x, pg_class y WHERE x.relnamespace = 2200 AND y.relnamespace = x.relnamespace AND x.relkind = 'r' AND y.relkind = 'r' AND x.relname < y.relname ORDER BY 1, 2
;
SELECT n.nspname, c.relname FROM pg_namespace n LEFT JOIN (pg_class c JOIN pg_index i ON i.indrelid = c.oid) ON c.relnamespace = n.oid AND n.nspname = 'public' WHERE n.nspname IN ('public', 'information_schema') ORDER BY 1, 2
;
SELECT n.nspname, c.relname FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' WHERE n.nspname = 'public' AND c.relname IS NOT NULL ORDER BY 2
;
SELECT t.*, s.* FROM (VALUES (1), (2)) AS t(a) LEFT JOIN LATERAL (SELECT t.a * 10 AS b WHERE t.a > 1) AS s ON true JOIN pg_database d ON d.datname = 'tierra' ORDER BY 1
;
SELECT s FROM pg_database d, generate_series(1, 6, 2) AS s WHERE d.datname = 'tierra' ORDER BY s
;
SELECT s.i, s.n FROM pg_database d, generate_series(3, 1, -1) WITH ORDINALITY AS s(i, n) WHERE d.datname = 'tierra' ORDER BY s.n
;
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b', 'c']) AS u(x, y), current_schema() AS s
;
SELECT table_name, column_name, ordinal_position, data_type, is_nullable, numeric_precision, numeric_scale, udt_name, datetime_precision, character_maximum_length, column_default, numeric_precision_radix, character_octet_length, is_identity FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 3
;
SELECT * FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name
;
SELECT constraint_name, constraint_type, table_name, is_deferrable FROM information_schema.table_constraints WHERE table_schema = 'public' AND constraint_type <> 'CHECK' ORDER BY 1
;
SELECT count(*) FROM information_schema.table_constraints WHERE table_schema = 'public' AND constraint_type = 'CHECK'
;
SELECT * FROM information_schema.key_column_usage WHERE table_schema = 'public' ORDER BY table_name, ordinal_position
;
SELECT * FROM information_schema.constraint_column_usage WHERE table_schema = 'public' ORDER BY table_name, column_name
;
SELECT * FROM information_schema.referential_constraints
;
SELECT schema_name FROM information_schema.schemata WHERE schema_name <> 'pg_toast' ORDER BY 1
;
SELECT count(*) FROM information_schema.sequences
;
SELECT attrelid::regclass, attname, atttypid::regtype, attlen, attnum, atttypmod, attbyval, attalign, attstorage, attnotnull, atthasdef, attidentity, attgenerated, attisdropped, attcollation, attndims FROM pg_attribute WHERE attrelid IN ('everything'::regclass, '"Mixed Case"'::regclass) AND attnum > 0 ORDER BY 1::text, attnum
;
SELECT indexrelid::regclass, indnatts, indnkeyatts, indisunique, indisprimary, indkey, indclass, indoption, indcollation, indexprs, indpred, indisvalid FROM pg_index i JOIN pg_class c ON c.oid = indrelid WHERE c.relnamespace = 2200 ORDER BY 1::text
;
SELECT oid, typname, typlen, typbyval, typtype, typcategory, typdelim, typelem, typarray, typinput, typoutput, typreceive, typsend, typalign, typstorage, typcollation FROM pg_type WHERE typname IN ('int8', '_int8', 'text', 'numeric', 'timestamp', 'bool', 'date', 'float8', 'name', '_name', 'oid', 'unknown', 'void', 'regclass') ORDER BY oid
;
SELECT has_table_privilege('everything', 'SELECT'), has_table_privilege('everything'::regclass, 'INSERT, UPDATE'), has_schema_privilege('public', 'USAGE'), has_database_privilege('tierra', 'CONNECT'), has_column_privilege('everything', 'id', 'SELECT'), pg_has_role(current_user, 'USAGE'), pg_has_role(current_user, 'alice', 'MEMBER')
;
SELECT pg_get_userbyid(relowner), obj_description(oid, 'pg_class'), col_description(oid, 1), pg_table_is_visible(oid) FROM pg_class WHERE relname = 'everything'
;
SELECT pg_size_pretty(0::int8), pg_size_pretty(10239::int8), pg_size_pretty(10240::int8), pg_size_pretty(123456789::int8), pg_size_pretty((-20000)::int8)
;
SELECT current_user, session_user, user, current_role, current_catalog, current_schema, current_database()
;
SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = 'everything'::regclass AND a.attnum BETWEEN 2 AND 4 AND a.attnum NOT BETWEEN 3 AND 3 ORDER BY a.attnum
;
SELECT 1 FROM pg_class WHERE nosuch = 1
;
SELECT x.relname FROM pg_class c
;
SELECT oid FROM pg_class c, pg_type t
;
SELECT relname FROM pg_class GROUP BY relkind
;
SELECT relname FROM pg_class WHERE count(*) > 1
;
SELECT * FROM pg_nosuch, pg_class
;
SELECT pg_nosuch(1)
;
SELECT relname = 1 FROM pg_class
;
SELECT 'x'::int, version()
;
SELECT (SELECT oid FROM pg_class)
;
SELECT (SELECT oid, relname FROM pg_class)
;
SELECT 1 / 0, version()
;
SELECT 'nosuch'::regclass
;
SELECT 'nosuch'::regtype
;
SELECT oid FROM pg_class UNION SELECT 1, 2
;
SELECT DISTINCT relkind FROM pg_class ORDER BY relname
;
SELECT relname FROM pg_class ORDER BY 2
;
SELECT a.oid FROM pg_class a, pg_class a
;
SELECT relname + 1 FROM pg_class
;
SELECT relname FROM pg_class WHERE relname ~ '('
;
SELECT lower(relname, 1) FROM pg_class
;
SELECT count(*) FROM pg_class HAVING relname = 'x'
;
SELECT 40000::int2, version()
;
SELECT 2147483647 + 1, version()
;
SELECT relname FROM pg_class LIMIT -1
;
SELECT ROW(1, NULL) < ROW(1, 3), ROW(1, NULL) < ROW(2, 3), (1, 2) < (1, 3), (2, 1) >= (1, NULL), pg_typeof(1)
;
SELECT sum(x) FROM (VALUES (1.1), (2.2)) AS t(x) WHERE version() IS NOT NULL
;
SELECT ROW('a,b', NULL), version()
;
SELECT 'é' ~ '^[[:alpha:]]$', 'é' ~ '^\w$', 'É' ~ '[[:upper:]]', '٣' ~ '\d', '٣' ~ '[[:digit:]]', 'a1' ~ '^[[:alnum:]]+$', version() ~ '[[:space:]]'
;
SELECT 'a'::char(3) LIKE 'a', 'a'::char(3) ~ 'a$', octet_length('a'::char(3)), length('a'::char(3)), concat('a'::char(3), '|'), 'a'::char(3) || '|', 'a'::char(3) = 'a ', 'a'::char(3) = 'a '::text, upper('a'::char(3)) || '|', 'a'::char(3)::varchar || '|', 'a'::char(3) IN ('b', 'a'), nullif('a'::char(3), 'a '), nullif('a'::char(3), 'b'), 'pg_am'::regclass
;
SELECT 1000000::float4, 123456::float4, 1234567::float4, 16777217::float4, 0.0001::float4, 0.00001::float4, '1.1'::float4::float8, 999999.5::float4, 1.5::float4::text, 33554433::float4::int8, 'pg_am'::regclass
;
SELECT has_table_privilege('everything', 'foo')
;
SELECT has_table_privilege(1::oid, 'select'), has_schema_privilege(1::oid, 'usage'), has_database_privilege(99999::oid, 'connect'), has_column_privilege('everything', 99::int2, 'select'), has_type_privilege(1::oid, 'usage'), has_function_privilege(1::oid, 'execute'), has_language_privilege(1::oid, 'usage'), has_sequence_privilege(1::oid, 'usage'), has_tablespace_privilege(1::oid, 'create'), has_server_privilege(1::oid, 'usage'), has_foreign_data_wrapper_privilege(1::oid, 'usage')
;
SELECT has_schema_privilege('nosuch', 'usage')
;
SELECT has_database_privilege('nosuch', 'connect')
;
SELECT has_column_privilege('everything', 'nosuch', 'select')
;
SELECT has_column_privilege('nosuch', 'nosuch', 'select')
;
SELECT has_sequence_privilege('everything', 'usage')
;
SELECT has_language_privilege('nosuch', 'usage')
;
SELECT has_tablespace_privilege('nosuch', 'create')
;
SELECT has_type_privilege('nosuch', 'usage')
;
SELECT has_function_privilege('nosuch()', 'execute')
;
SELECT has_server_privilege('nosuch', 'usage')
;
SELECT has_foreign_data_wrapper_privilege('nosuch', 'usage')
;
SELECT has_table_privilege('nosuch', 'everything', 'select')
;
SELECT has_table_privilege('public', 'everything', 'select'), has_table_privilege('public', 'pg_class', 'select'), has_schema_privilege('public', 'public', 'usage'), has_schema_privilege('public', 'public', 'create'), has_database_privilege('public', 'tierra', 'connect')
;
SELECT has_table_privilege(99::oid, 'everything', 'select'), has_table_privilege(10, 'everything', 'select, insert with grant option'), has_table_privilege('everything', 'rule'), has_table_privilege('"Mixed Case"', 'update'), has_column_privilege('"Mixed Case"', 'Second', 'update')
;
SELECT pg_has_role('nosuch', 'member')
;
SELECT pg_has_role('alice', 'member'), pg_has_role(10, 'usage')
;
SELECT has_any_column_privilege('everything', 'delete')
;
SELECT has_function_privilege('version()', 'execute'), has_function_privilege('int4in(cstring)', 'execute'), has_type_privilege('int4', 'usage'), has_language_privilege('internal', 'usage'), has_tablespace_privilege('pg_default', 'create'), has_database_privilege('tierra', 'create, temp'), has_schema_privilege(current_user, 'public', 'create')
;
WITH pg_class AS (SELECT relname AS n FROM pg_class WHERE relnamespace = 2200) SELECT n FROM pg_class ORDER BY 1
;
WITH t AS (WITH t AS (SELECT 1 AS n) SELECT n + 1 AS n FROM t) SELECT n, (WITH t AS (SELECT 7 AS n) SELECT n FROM t), 'pg_am'::regclass FROM t
;
