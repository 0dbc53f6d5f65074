// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package backup reads and writes the file that holds a hub's database.
//
// A backup is an age file (https://age-encryption.org/v1). Its file key is wrapped by the root of
// the catalog's sealing keys, so a backup opens with the root alone, and without the root it is
// impossible to make or alter one. Inside is a stream of zstd, and inside that lines of JSON: a
// [Header], then for each table a line with its name and columns and a line for each row, and at
// the end the number of rows.
//
// # Promises
//
// A reader trusts nothing before it has authenticated it, and reports a truncated, altered or
// foreign file by a typed error. It uses a bounded amount of memory, whatever the file holds: see
// the limits below. A writer refuses what a reader would refuse. Neither keeps more than a row in
// memory.
//
// # What it does not do
//
// It knows no database and no schema: package sqlstore reads and writes the rows.
package backup

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

var (
	// ErrForeign is in the chain of the error when a file is not a backup of Leat's, or is of a later
	// form.
	ErrForeign = errors.New("the file is not a backup that this release reads")
	// ErrRoot is in the chain of the error when none of the roots opens the backup.
	ErrRoot = errors.New("no root opens the backup")
	// ErrDamaged is in the chain of the error when a backup was truncated or altered, or breaks a
	// limit.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrTooLarge is in the chain of the error of a writer when a row is larger than a reader accepts.
	ErrTooLarge = errors.New("a row is too large for a backup")
)

const (
	// format is the form of the stream.
	format = 1
	// stanza is the type of the recipient in the header of the age file. Its argument is the name of
	// the root, and its body the wrapped file key.
	stanza = "leat-root"
	// place is the binding of the wrapped file key.
	place = "backup"

	// maxHeader bounds the header of the age file, which is read before anything is authenticated.
	maxHeader = 64 << 10
	// maxRow bounds a line. The largest rows are reports and specs of a few MiB.
	maxRow = 64 << 20
	// maxWindow bounds the memory of the decompressor.
	maxWindow = 8 << 20
	// maxRatio bounds how much a backup may grow when it is decompressed, above freeGrowth bytes. Rows
	// of JSON grow to some tens of their size.
	maxRatio   = 1000
	freeGrowth = 64 << 20
)

// Header describes a backup.
type Header struct {
	// Format is the form of the stream. Writers set it.
	Format int `json:"leatBackup"`
	// MadeAt is when the snapshot was taken.
	MadeAt time.Time `json:"madeAt"`
	// Version is the release that made it.
	Version string `json:"version"`
	// Schema lists the migrations of the database, in order.
	Schema []string `json:"schema"`
}

// Table begins the rows of a table.
type Table struct {
	Name    string   `json:"table"`
	Columns []string `json:"columns"`
}

// Row holds the values of a row, in the order of its table's columns: nil, string, int64, bool or
// []byte.
type Row []any

// trailer is the last line.
type trailer struct {
	Rows int64 `json:"rows"`
}

// binary is the JSON of what JSON has no form for. One field is set.
type binary struct {
	// Bytes are bytes, and Text a text that is not UTF-8, both in base64.
	Bytes *string `json:"b,omitempty"`
	Text  *string `json:"t,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r Row) MarshalJSON() ([]byte, error) {
	encoded := make([]any, len(r))
	for i, value := range r {
		switch v := value.(type) {
		case nil, int64, bool:
			encoded[i] = v
		case []byte:
			text := base64.StdEncoding.EncodeToString(v)
			encoded[i] = binary{Bytes: &text}
		case string:
			encoded[i] = v
			if !utf8.ValidString(v) {
				text := base64.StdEncoding.EncodeToString([]byte(v))
				encoded[i] = binary{Text: &text}
			}
		default:
			return nil, fmt.Errorf("column %d: got %T, which a backup does not hold", i, value)
		}
	}
	return json.Marshal(encoded)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Row) UnmarshalJSON(text []byte) error {
	var encoded []json.RawMessage
	if err := json.Unmarshal(text, &encoded); err != nil {
		return err
	}
	row := make(Row, len(encoded))
	for i, value := range encoded {
		var err error
		if row[i], err = valueOf(value); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	*r = row
	return nil
}

// valueOf returns the value of its JSON.
func valueOf(text json.RawMessage) (any, error) {
	switch text[0] {
	case 'n':
		return nil, nil
	case 't', 'f':
		return text[0] == 't', nil
	case '"':
		var v string
		err := json.Unmarshal(text, &v)
		return v, err
	case '{':
		var v binary
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, err
		}
		if v.Bytes != nil {
			return base64.StdEncoding.DecodeString(*v.Bytes)
		}
		if v.Text == nil {
			return nil, errors.New("neither bytes nor text")
		}
		plain, err := base64.StdEncoding.DecodeString(*v.Text)
		return string(plain), err
	default:
		var v int64
		err := json.Unmarshal(text, &v)
		return v, err
	}
}
