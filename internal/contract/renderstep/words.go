// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderstep

import (
	"maps"
	"slices"
	"strings"
)

// StepsWord is the capability word of agents that mount sources into one tree and carry out render
// steps on it.
const StepsWord = wordPrefix + "steps"

const wordPrefix = "render:"

// The capability words of agents that do more with a configuration than to replace variables.
const (
	// ClusterReferencesWord is the word of agents that read what references lead to in their cluster.
	ClusterReferencesWord = "config:cluster-references"
	// RestartWord is the word of agents that roll pods when a configuration changes.
	RestartWord = "config:restart"
)

// Words returns the capability words of an agent that carries out steps with these renderers,
// sorted: [StepsWord], and one word for each renderer but plain and kustomize, which every agent
// has.
//
// Agents report the words, and the hub withholds from an agent what needs a word that it does not
// report. They are a contract between versions: a word is never given another meaning.
func Words(renderers ...Renderer) []string {
	words := map[string]bool{StepsWord: true}
	for _, r := range renderers {
		if word := r.Word(); word != "" {
			words[word] = true
		}
	}
	return slices.Sorted(maps.Keys(words))
}

// Word returns the capability word of agents that have the renderer, such as "render:helm". It is
// empty for renderers that every agent has.
func (r Renderer) Word() string {
	if !r.ProducesText() {
		return ""
	}
	return wordPrefix + string(r)
}

// WordsKnown returns every word that this version can give a meaning to, sorted. An agent reports
// the abilities of its own renderers, which may be fewer.
func WordsKnown() []string {
	return slices.Sorted(slices.Values(append(Words(Helm, Liquid, Jsonnet, CUE, WASM), ClusterReferencesWord, RestartWord)))
}

// Ability returns what an agent with the capability word can do, as a phrase that follows "can".
func Ability(word string) string {
	if renderer, ok := strings.CutPrefix(word, wordPrefix); ok && word != StepsWord {
		return "render " + renderer
	}
	switch word {
	case StepsWord:
		return "carry out render steps"
	case ClusterReferencesWord:
		return "read cluster:// references"
	case RestartWord:
		return "restart pods when a configuration changes"
	}
	return "do " + word
}
