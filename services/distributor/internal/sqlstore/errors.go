// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// translate names the attempt, and marks errors of an unavailable database as
// catalog.ErrUnavailable.
func translate(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case isConnecting(err): // with a timeout of its own, which is not the caller's
		return fmt.Errorf("%s: %w: %w", verb, catalog.ErrUnavailable, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case unavailable(err):
		return fmt.Errorf("%s: %w: %w", verb, catalog.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", verb, err)
}

func isConnecting(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

func unavailable(err error) bool {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return true
	}
	if isConnecting(err) {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return passingState(e.Code)
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return passingCode(e.Code())
	}
	return pgconn.SafeToRetry(err)
}

// passingState knows the SQLSTATE classes connection exception, insufficient resources, operator
// intervention, system error, a server that is read-only because it is a standby, and transactions that
// were silent for idleInTransaction.
func passingState(state string) bool {
	for _, class := range []string{"08", "53", "57", "58", "25006", "25P03"} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return false
}

// passingCode knows the primary result codes that are about the file rather than about the
// statement.
func passingCode(code int) bool {
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return true
	}
	return false
}
