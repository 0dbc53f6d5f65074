// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writeStatus answers as an API server would, so that kubectl shows the message, and says that it was the agent.
func writeStatus(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(headerErrorOrigin, originAgent)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the caller hung up: there is nobody left to tell
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Reason: metav1.StatusReason(reason), Code: int32(code),
	})
}
