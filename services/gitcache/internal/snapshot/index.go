// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/kit/durable"
)

// rememberDigests bounds an index; maxIndexFile is when its file is begun again, from its newer
// half.
const (
	rememberDigests = 200_000
	maxIndexFile    = 64 << 20
)

// Index remembers the digests of content, in memory and in a file that is appended to. Every line
// carries a checksum, so that a crash in the middle of one loses that line and no other. All
// methods may be called concurrently.
type Index struct {
	mu    sync.Mutex // orders lines
	known *lru.Cache[treeKey, Snapshot]
	file  *os.File // nil: memory only
}

// record is one line of the file.
type record struct {
	UID string `json:"uid"`
	Key string `json:"key"`
	Snapshot
}

// NewIndex returns an index that remembers as long as the process lives.
func NewIndex() *Index { return &Index{known: newCache[treeKey, Snapshot](rememberDigests)} }

// OpenIndex reads the index in a file, which is made if it does not exist. Lines that cannot be
// read are left out.
func OpenIndex(path string) (*Index, error) {
	x := NewIndex()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open digest index: %w", err)
	}
	if len(data) > maxIndexFile {
		if data, err = shortenFile(path, data); err != nil {
			return nil, fmt.Errorf("shorten digest index: %w", err)
		}
	}
	x.load(string(data))
	x.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open digest index: %w", err)
	}
	if data := string(data); data != "" && !strings.HasSuffix(data, "\n") {
		if _, err := io.WriteString(x.file, "\n"); err != nil { // a line that a crash cut off must not eat the next one
			return nil, errors.Join(fmt.Errorf("open digest index: %w", err), x.file.Close())
		}
	}
	return x, nil
}

// shortenFile keeps the newer half of the file. The cut may fall into a line, which then no
// checksum fits.
func shortenFile(path string, data []byte) ([]byte, error) {
	data = data[len(data)/2:]
	return data, durable.WriteFile(path, "digests-", data)
}

func (x *Index) load(data string) {
	lines := bufio.NewScanner(strings.NewReader(data))
	for lines.Scan() {
		sum, text, _ := strings.Cut(lines.Text(), " ")
		var r record
		if sum != checksum(text) || json.Unmarshal([]byte(text), &r) != nil {
			continue
		}
		x.known.Add(treeKey{uid: r.UID, id: r.Key}, r.Snapshot)
	}
}

func checksum(text string) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(text))), 16)
}

// Get returns the record of the content that a key of a repository names.
func (x *Index) Get(uid, id string) (Snapshot, bool) { return x.known.Get(treeKey{uid, id}) }

// Put remembers a snapshot. It is not synced: a digest that a crash takes is computed again.
func (x *Index) Put(uid, id string, s Snapshot) error {
	key := treeKey{uid, id}
	x.mu.Lock()
	defer x.mu.Unlock()
	if before, ok := x.known.Get(key); ok && before.Digest == s.Digest {
		return nil
	}
	x.known.Add(key, s)
	if x.file == nil {
		return nil
	}
	text, err := json.Marshal(record{uid, id, s})
	if err != nil {
		return fmt.Errorf("write digest index: %w", err)
	}
	if _, err := fmt.Fprintf(x.file, "%s %s\n", checksum(string(text)), text); err != nil {
		return fmt.Errorf("write digest index: %w", err)
	}
	return nil
}

// Close closes the file.
func (x *Index) Close() error {
	if x.file == nil {
		return nil
	}
	return x.file.Close()
}
