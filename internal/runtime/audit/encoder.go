// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// appendLine writes a record as a line of JSON, with what [Record.Attrs] has, as slog's handler
// would. There are two records to each request, and a handler of slog takes ten times as long for
// one as this does.
func appendLine(b []byte, r *Record) []byte {
	b = append(b, `{"time":"`...)
	b = r.Time.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"INFO","msg":"audit"`...)
	b = appendString(append(b, `,"phase":`...), string(r.Phase))
	b = appendString(append(b, `,"id":`...), r.ID)
	b = appendString(append(b, `,"trace_id":`...), r.TraceID)
	b = appendString(append(b, `,"subject":`...), r.Subject)
	b = appendString(append(b, `,"subject_uid":`...), r.SubjectUID)
	b = appendString(append(b, `,"token_id":`...), r.TokenID)
	if len(r.Claims) > 0 {
		b = appendTexts(append(b, `,"claims":`...), r.Claims)
	}
	b = appendString(append(b, `,"cluster":`...), r.Cluster)
	b = appendString(append(b, `,"method":`...), r.Method)
	b = appendString(append(b, `,"uri":`...), r.URI)
	b = appendString(append(b, `,"verb":`...), r.Attributes.Verb)
	b = appendString(append(b, `,"api_group":`...), r.Attributes.APIGroup)
	b = appendString(append(b, `,"api_version":`...), r.Attributes.APIVersion)
	b = appendString(append(b, `,"resource":`...), r.Attributes.Resource)
	b = appendString(append(b, `,"subresource":`...), r.Attributes.Subresource)
	b = appendString(append(b, `,"namespace":`...), r.Attributes.Namespace)
	b = appendString(append(b, `,"name":`...), r.Attributes.Name)
	b = appendString(append(b, `,"source_address":`...), r.SourceAddress)
	b = appendString(append(b, `,"user_agent":`...), r.UserAgent)
	b = strconv.AppendBool(append(b, `,"allowed":`...), r.Allowed)
	b = appendString(append(b, `,"reason":`...), r.Reason.String())
	if r.Change != nil {
		b = appendChange(b, r.Change)
	} else {
		b = appendString(append(b, `,"impersonated_user":`...), r.ImpersonatedUser)
		b = appendString(append(b, `,"impersonated_uid":`...), r.ImpersonatedUID)
		b = appendStrings(append(b, `,"impersonated_groups":`...), r.ImpersonatedGroups)
		b = appendLists(append(b, `,"impersonated_extra":`...), r.ImpersonatedExtra)
	}
	switch r.Phase {
	case PhaseDecision, PhaseHop, PhaseChange:
	case PhaseSummary:
		b = strconv.AppendInt(append(b, `,"count":`...), r.Count, 10)
		b = append(b, `,"since":"`...)
		b = append(r.Since.AppendFormat(b, time.RFC3339Nano), '"')
	default:
		b = appendOutcome(b, r)
	}
	return append(b, '}', '\n')
}

func appendOutcome(b []byte, r *Record) []byte {
	b = appendString(append(b, `,"connection":`...), r.Connection)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(r.Status), 10)
	b = strconv.AppendInt(append(b, `,"bytes_in":`...), r.BytesIn, 10)
	b = strconv.AppendInt(append(b, `,"bytes_out":`...), r.BytesOut, 10)
	b = strconv.AppendFloat(append(b, `,"duration_seconds":`...), r.Duration.Seconds(), 'g', -1, 64) // never NaN or infinite
	return appendString(append(b, `,"outcome":`...), string(r.Outcome))
}

func appendChange(b []byte, c *Change) []byte {
	b = appendString(append(b, `,"request_id":`...), c.RequestID)
	b = appendString(append(b, `,"kind":`...), c.Kind)
	b = appendString(append(b, `,"object_uid":`...), c.ObjectUID)
	b = appendString(append(b, `,"credential":`...), c.Credential)
	b = appendString(append(b, `,"token_limit":`...), c.TokenLimit)
	b = appendString(append(b, `,"stated_reason":`...), c.StatedReason)
	b = append(append(b, `,"changes":`...), c.text()...)
	return strconv.AppendInt(append(b, `,"changes_omitted":`...), int64(c.Omitted), 10)
}

func appendStrings(b []byte, list []string) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

func appendTexts(b []byte, texts map[string]string) []byte {
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(texts)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, key)
		b = appendString(append(b, ':'), texts[key])
	}
	return append(b, '}')
}

func appendLists(b []byte, lists map[string][]string) []byte {
	if lists == nil {
		return append(b, "null"...)
	}
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(lists)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, key)
		b = append(b, ':')
		b = appendStrings(b, lists[key])
	}
	return append(b, '}')
}

// appendString leaves everything that is not plain to encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // strings can always be encoded
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
