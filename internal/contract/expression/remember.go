// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const (
	// maxRemembered bounds the results that an expression remembers. One that has more different ones, such
	// as the name of each object, has no use for remembering.
	maxRemembered = 128
	// maxRememberedBytes bounds a result, and what it is remembered by. Labels have 63 bytes.
	maxRememberedBytes = 256
)

// Remembering returns an expression that remembers its results by the fields of self that it reads, as far
// as these are texts. It is for expressions that are evaluated for very many objects of which most are alike
// in these fields. A result that is remembered is charged to budgets like one that is computed, so what an
// expression makes does not depend on what was evaluated before. The expression keeps what it has read in
// memory, so it must not be evaluated for objects with secrets.
func (e *Expression) Remembering() *Expression {
	if e.reads == nil {
		return e
	}
	remembering := *e
	remembering.memory = &memory{results: map[string]result{}}
	return &remembering
}

// memory are results by what was read. It is safe for concurrent use.
type memory struct {
	mu sync.Mutex
	// results is nil once there were more than are remembered.
	results map[string]result
}

type result struct {
	value ref.Val
	cost  uint64
}

func (m *memory) find(key string) (result, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.results[key]
	return found, ok
}

func (m *memory) isFull() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.results == nil
}

// keep remembers a result, if it is small.
func (m *memory) keep(key string, r result) {
	switch value := r.value.(type) {
	case types.String:
		if len(value) > maxRememberedBytes {
			return
		}
	case types.Bool, types.Int, types.Uint, types.Double:
	default:
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.results == nil:
	case len(m.results) >= maxRemembered:
		m.results = nil
	default:
		m.results[key] = r
	}
}

// remembered returns the result for a key, if there is one.
func (e *Expression) remembered(key string, isRemembering bool) (result, bool) {
	if !isRemembering {
		return result{}, false
	}
	return e.memory.find(key)
}

// keyOf returns what tells an object from others as far as the expression reads it. ok is false if the
// expression remembers nothing, or reads something else than texts.
func (e *Expression) keyOf(object map[string]any) (key string, ok bool) {
	if e.memory == nil || e.memory.isFull() {
		return "", false
	}
	var b strings.Builder
	for _, path := range e.reads {
		text, depth, ok := textAt(object, path)
		if !ok || b.Len()+len(text) > maxRememberedBytes {
			return "", false
		}
		// How much of the path there is makes a difference, too.
		b.WriteString(strconv.Itoa(depth))
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(len(text)))
		b.WriteByte(' ')
		b.WriteString(text)
	}
	return b.String(), true
}

// textAt returns the text at a path, and how many of its names there are. ok is false if there is something
// else.
func textAt(object map[string]any, path []string) (text string, depth int, ok bool) {
	for depth, name := range path {
		value, exists := object[name]
		if !exists {
			return "", depth, true
		}
		switch v := value.(type) {
		case map[string]any:
			object = v
		case string:
			return v, depth + 1, depth == len(path)-1
		default:
			return "", depth, false
		}
	}
	return "", len(path), false // a map
}

// readsOf returns the fields of self that an expression reads, each as its names, or nil if it also reads
// self in another way, such as self[key].
func readsOf(root ast.Expr) [][]string {
	operands := map[int64]bool{}
	eachNode(root, func(e ast.Expr) {
		if e.Kind() == ast.SelectKind {
			operands[e.AsSelect().Operand().ID()] = true
		}
	})
	reads, isWhole := [][]string{}, false
	eachNode(root, func(e ast.Expr) {
		if operands[e.ID()] {
			return
		}
		var path []string
		for e.Kind() == ast.SelectKind {
			path = append(path, e.AsSelect().FieldName())
			e = e.AsSelect().Operand()
		}
		if e.Kind() != ast.IdentKind || e.AsIdent() != self {
			return
		}
		isWhole = isWhole || len(path) == 0
		slices.Reverse(path)
		reads = append(reads, path)
	})
	if isWhole {
		return nil
	}
	return reads
}

func eachNode(root ast.Expr, do func(e ast.Expr)) { ast.PreOrderVisit(root, ast.NewExprVisitor(do)) }
