{{- define "sherpack-operator.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sherpack-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sherpack-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "sherpack-operator.selector" -}}
app.kubernetes.io/name: sherpack-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sherpack-operator.labels" -}}
{{ include "sherpack-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}
