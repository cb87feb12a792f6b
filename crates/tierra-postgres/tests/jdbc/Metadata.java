// What pgjdbc tells of a database: `java -cp postgresql.jar Metadata.java jdbc:postgresql://HOST:PORT/tierra USER PASSWORD`.

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

public class Metadata {
    interface Source {
        ResultSet rows() throws Exception;
    }

    static void check(String what, Object found, Object expected) {
        if (!expected.equals(found)) throw new AssertionError(what + ": " + found + ", not " + expected);
    }

    static List<String> all(Source source, String... columns) throws Exception {
        List<String> rows = new ArrayList<>();
        try (ResultSet rs = source.rows()) {
            while (rs.next()) {
                StringBuilder row = new StringBuilder();
                for (String column : columns) row.append(row.length() == 0 ? "" : "|").append(rs.getString(column));
                rows.add(row.toString());
            }
        }
        return rows;
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection db = DriverManager.getConnection(arguments[0], arguments[1], arguments[2]); Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE j (b INTEGER NOT NULL, a BIGINT, s VARCHAR, d DECIMAL(9, 2), PRIMARY KEY (a, b))");
            DatabaseMetaData data = db.getMetaData();
            check("tables", all(() -> data.getTables(null, "public", "j", new String[] {"TABLE"}), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"), List.of("public|j|TABLE"));
            check("columns", all(() -> data.getColumns(null, "public", "j", "%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "IS_NULLABLE"),
                List.of("b|int4|10|0|NO", "a|int8|19|0|NO", "s|text|2147483647|0|YES", "d|numeric|9|2|YES"));
            check("keys", all(() -> data.getPrimaryKeys(null, "public", "j"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"), List.of("a|1|j_pkey", "b|2|j_pkey"));
            check("indexes", all(() -> data.getIndexInfo(null, "public", "j", true, true), "INDEX_NAME", "ORDINAL_POSITION", "COLUMN_NAME", "NON_UNIQUE"),
                List.of("j_pkey|1|a|f", "j_pkey|2|b|f"));
            check("imported", all(() -> data.getImportedKeys(null, "public", "j"), "FKTABLE_NAME"), List.of());
            check("exported", all(() -> data.getExportedKeys(null, "public", "j"), "FKTABLE_NAME"), List.of());
            check("catalogs", all(() -> data.getCatalogs(), "TABLE_CAT"), List.of("tierra"));
            check("schema", all(() -> data.getSchemas(null, "pub%"), "TABLE_SCHEM"), List.of("public"));
            check("types", all(() -> data.getTypeInfo(), "TYPE_NAME").containsAll(List.of("int8", "text", "numeric")), true);
            check("procedures", all(() -> data.getProcedures(null, "public", "%"), "PROCEDURE_NAME"), List.of());
            check("functions", all(() -> data.getFunctions(null, "public", "%"), "FUNCTION_NAME"), List.of());
            check("row", all(() -> data.getBestRowIdentifier(null, "public", "j", 1, true), "COLUMN_NAME").size(), 2);
            all(() -> data.getTableTypes(), "TABLE_TYPE");
            all(() -> data.getTablePrivileges(null, "public", "j"), "PRIVILEGE");
            check("keywords", data.getSQLKeywords().isEmpty(), false);
            check("names", data.getMaxColumnNameLength(), 63);
            try (ResultSet rs = statement.executeQuery("SELECT * FROM j")) {
                ResultSetMetaData columns = rs.getMetaData();
                check("type", columns.getColumnTypeName(2), "int8");
                check("precision", columns.getPrecision(4), 9);
            }
            // From the fifth time on it asks for binary.
            try (PreparedStatement query = db.prepareStatement("SELECT oid, relname, relnatts, relhasindex FROM pg_class WHERE relname = ? AND relnatts > ?")) {
                for (int time = 0; time < 8; time++) {
                    query.setString(1, "j");
                    query.setInt(2, 1);
                    try (ResultSet rs = query.executeQuery()) {
                        check("a row", rs.next(), true);
                        check("name", rs.getString(2), "j");
                        check("columns", rs.getInt(3), 4);
                        check("index", rs.getBoolean(4), true);
                        check("number", rs.getLong(1) > 16000, true);
                    }
                }
            }
        }
        System.out.println("metadata ok");
    }
}
